// The page of the paired cost report (the document is that of src/audit/cost.h).
import { NONE, number, seconds } from "../format.js";
import { html } from "../html.js";
import { scale, Strips, ticks } from "./chart.js";
import { bytes, Facts, Section, shown, Table, Value, Verdict, words } from "./parts.js";

/** 0.081 -> "+8.1 %". */
export function change(value) {
  if (typeof value !== "number") return NONE;
  return `${value < 0 ? "−" : "+"}${Math.abs(value * 100).toFixed(1)} %`;
}

const range = ({ low, high } = {}) => `${change(low)} to ${change(high)}`;

function amount(value, unit) {
  if (typeof value !== "number") return NONE;
  if (unit === "s") return seconds(value);
  return unit === "bytes" ? bytes(value) : `${number(value)} ${unit}`;
}

/** Of the pairs: the increase of time of each, whichever the unit. */
const increases = ({ ratios = [] }) => ratios.map((ratio) => ratio - 1);

function Increases({ metrics, margin }) {
  const values = metrics.flatMap((metric) => [metric.time_increase.low, metric.time_increase.high, ...increases(metric)]);
  const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
  const room = (high - low || 1) * 0.04;
  const at = scale(low - room, high + room);
  return html`
    <${Strips}
      label=${`Increase of time: ${metrics.map((metric) => `${metric.title} ${change(metric.time_increase.estimate)}`).join("; ")}`}
      at=${at}
      marks=${ticks(low - room, high + room)}
      format=${(mark) => (mark === 0 ? "0" : `${mark > 0 ? "+" : "−"}${Number(Math.abs(mark * 100).toPrecision(6))} %`)}
      zero=${0}
      band=${margin > 0 ? [-margin, margin] : undefined}
      rows=${metrics.map((metric) => ({
        label: metric.title,
        text: change(metric.time_increase.estimate),
        dots: increases(metric),
        ...metric.time_increase,
      }))}
    />`;
}

function Figures({ metrics, a, b }) {
  return html`<${Table}
    caption="Every metric under both modes, with the increase of time and the same as a ratio of throughput"
    columns=${["Metric", `>${a}`, `>${b}`, ">Time increase", ">Interval", ">Throughput ratio", "Verdict", ">Pairs needed"]}
    rows=${metrics.map((metric) => [
      metric.title,
      amount(metric.a?.median, metric.unit),
      amount(metric.b?.median, metric.unit),
      change(metric.time_increase.estimate),
      range(metric.time_increase),
      metric.throughput_ratio ? metric.throughput_ratio.estimate.toFixed(3) : NONE,
      html`<${Verdict} verdict=${metric.verdict} />`,
      shown(metric.needs_pairs),
    ])}
  />`;
}

function Spread({ metrics, a, b }) {
  const least = ({ least, most, spread } = {}, unit) => typeof least !== "number" ? NONE : `${amount(least, unit)} to ${amount(most, unit)}, spread ${change(spread).slice(1)}`;
  return html`<${Table}
    caption="Least and most of each metric over its runs, and the spread around the median"
    columns=${["Metric", a, b, ">Spread of the pairs", ">p", ">p, adjusted"]}
    rows=${metrics.map((metric) => [
      metric.title,
      least(metric.a, metric.unit),
      least(metric.b, metric.unit),
      change(metric.spread_of_pairs).slice(1),
      shown(metric.p),
      shown(metric.p_adjusted),
    ])}
  />`;
}

const sided = (part = {}) =>
  [...new Set([...Object.keys(part.a ?? {}), ...Object.keys(part.b ?? {})])].map((name) => {
    const show = (value) => (/_bytes$/.test(name) ? bytes(value) : shown(value));
    return [words(name.replace(/_bytes$/, "")), show(part.a?.[name]), show(part.b?.[name])];
  });

export function Cost({ result }) {
  const { metrics = [], design = {}, conditions, conversion = [], warnings = [], memory, capacity, command, before } = result;
  const { identity_but_numerics: identity, ...settings } = conditions ?? {};
  const [a, b] = [result.a?.label ?? "a", result.b?.label ?? "b"];
  const space = [...sided(memory), ...sided(capacity)];
  return html`
    ${
      warnings.length > 0 &&
      html`<${Section} title="Mind"><ul>${warnings.map((warning) => html`<li>${warning}</li>`)}</ul><//>`
    }
    <${Section}
      title=${before ? "Increase of the contract's cost since then" : "Increase of time under the contract"}
      note=${`${before ? "How the contract's time grew beside free order's; the" : "A dot is one pair of runs, the"} thick line the interval${design.confidence ? ` at ${Math.round(design.confidence * 100)} % confidence` : ""}, the circle its estimate${design.margin ? `; the band is what counts as equal, ±${(design.margin * 100).toFixed(0)} %` : ""}.`}
    >
      <${Increases} metrics=${metrics} margin=${design.margin} />
    <//>
    <${Section} title="In figures">
      <${Figures} metrics=${metrics} a=${a} b=${b} />
      ${conversion.length > 0 && html`<ul class="note">${conversion.map((line) => html`<li>${line}</li>`)}</ul>`}
      ${!before && html`<details><summary>Spread and tests</summary><${Spread} metrics=${metrics} a=${a} b=${b} /></details>`}
    <//>
    ${
      space.length > 0 &&
      html`<${Section} title="Memory and capacity">
        <${Table} caption="Memory and capacity under both modes" columns=${["Field", `>${a}`, `>${b}`]} rows=${space} />
        ${capacity?.sequence_tokens && html`<p class="note">Capacity counts sequences of ${shown(capacity.sequence_tokens)} tokens.</p>`}
      <//>`
    }
    <${Section} title="What was compared">
      <${Table}
        caption="The two sides of the comparison"
        columns=${["Field", a, b]}
        rows=${["mode", "numerics", "fingerprint"].map((name) => [words(name), html`<${Value} name=${name} value=${result.a?.[name]} />`, html`<${Value} name=${name} value=${result.b?.[name]} />`])}
      />
      <${Facts} facts=${{ date: result.date, ...settings }} />
      ${identity && html`<details><summary>Identity, but for the numerics</summary><${Facts} facts=${identity} /></details>`}
      <${Facts} facts=${{ ...design, ...result.evidence }} />
      <${Facts} facts=${{ ...result.machine }} />
      ${command && html`<p class="command"><span class="note">Command</span> <code>${command}</code></p>`}
    <//>`;
}
