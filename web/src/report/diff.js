// The page of a comparison (the document is that of src/audit/diff.h): which level holds, and what shows it.
import { NONE } from "../format.js";
import { html } from "../html.js";
import { scale, Strips, ticks } from "./chart.js";
import { Difference, Facts, Section, sentence, shown, Table, toneOf, Value, Verdict, words } from "./parts.js";

const MEANINGS = {
  bits: "every token and every logprob, as float32",
  tokens: "token ids, text and finish reason",
  distribution: "answers under other seeds come from one distribution, within the margins",
  quality: "metrics are the same on average, within the margins",
};

function Ladder({ levels }) {
  return html`<ol class="ladder">
    ${levels.map(
      ({ level, verdict, statement, first_difference: first }) => html`
      <li class=${toneOf(verdict)} key=${level}>
        <p><strong>${sentence(level)}</strong> <${Verdict} verdict=${verdict} /> <span class="note">${MEANINGS[level]}</span></p>
        ${statement && html`<p>${statement}</p>`}
        ${first && html`<p class="note">First difference: <${Difference} difference=${first} /></p>`}
      </li>`,
    )}
  </ol>`;
}

const range = ({ low, high }) => (typeof low === "number" ? `${shown(low)} to ${shown(high)}` : NONE);

/** Estimates with their intervals in units of the margin, so that tests of all units stand on one axis. */
function Margins({ label, rows }) {
  const known = rows.filter(({ margin, low }) => margin > 0 && typeof low === "number");
  if (known.length === 0) return null;
  const values = known.flatMap(({ margin, low, high }) => [low / margin, high / margin]);
  const [low, high] = [Math.min(-1.2, ...values), Math.max(1.2, ...values)];
  return html`<${Strips}
    label=${label}
    at=${scale(low, high)}
    marks=${ticks(low, high)}
    format=${(mark) => `${mark} margin`.replace(/^0 margin$/, "0").replace("-", "−")}
    zero=${0}
    band=${[-1, 1]}
    rows=${known.map(({ name, estimate, low: from, high: to, margin, verdict }) => ({
      label: name,
      text: verdict,
      low: from / margin,
      high: to / margin,
      estimate: estimate / margin,
    }))}
  />`;
}

function Distribution({ level }) {
  const { tests = [], prompts = [] } = level;
  if (tests.length === 0) return null;
  return html`
    <${Section} title="Distribution" note="Intervals in units of each test's margin: inside the band, the level holds.">
      <${Margins} label="Effects of the tests, with their intervals" rows=${tests.map((test) => ({ ...test, name: words(test.title ?? test.name) }))} />
      <${Table}
        wide
        caption="Tests of the distribution: effect, interval, margin and the least effect that would have been seen"
        columns=${["Test", "What it measures", "Sample", ">Effect", ">Interval", ">Margin", ">p, adjusted", ">Detectable", ">Needs", "Verdict"]}
        rows=${tests.map((test) => [
          html`<span class="prose">${test.title ?? test.name}</span>`,
          html`<span class="prose">${test.statement} <span class="note">(${test.unit})</span></span>`,
          html`<span class="prose">${test.sample}</span>`,
          shown(test.estimate),
          range(test),
          shown(test.margin),
          shown(test.p_adjusted),
          shown(test.detectable),
          shown(test.needs),
          html`<${Verdict} verdict=${test.verdict} />`,
        ])}
      />
      ${
        prompts.length > 0 &&
        html`<${Table}
          visible
          caption="Prompts with the greatest distance"
          columns=${["Prompt", "Text", ">Distance", ">p", ">q"]}
          rows=${prompts.map(({ id, prompt, distance, p, q }) => [id, html`<span class="prose">${prompt}</span>`, shown(distance), shown(p), shown(q)])}
        />`
      }
    <//>`;
}

function Quality({ level }) {
  const { metrics = [] } = level;
  if (metrics.length === 0) return null;
  return html`
    <${Section} title="Quality" note="Paired differences, b less a, in units of each metric's margin.">
      <${Margins}
        label="Differences of the metrics, with their intervals"
        rows=${metrics.map((metric) => ({ ...metric, name: metric.metric, estimate: metric.difference }))}
      />
      <${Table}
        wide
        caption="Metrics of both sides, their paired difference with its interval, and the margin"
        columns=${["Metric", ">Items", ">a", ">b", ">Difference", ">Interval", ">Margin", ">p, adjusted", ">Needs", "Verdict", "Method"]}
        rows=${metrics.map((metric) => [
          metric.metric,
          shown(metric.items),
          shown(metric.a),
          shown(metric.b),
          shown(metric.difference),
          range(metric),
          shown(metric.margin),
          shown(metric.p_adjusted),
          shown(metric.needs),
          html`<${Verdict} verdict=${metric.verdict} />`,
          html`<span class="prose">${metric.method}</span>`,
        ])}
      />
    <//>`;
}

export function Fields({ title, caption, fields, sides }) {
  if (!fields?.length) return null;
  return html`<${Table}
    visible
    caption=${caption}
    columns=${["Field", ...sides]}
    rows=${fields.map((one) => [one.field, ...sides.map((side) => html`<span class="mono"><${Value} name=${one.field} value=${one[side]} /></span>`)])}
  />`;
}

export function Diff({ result }) {
  const { levels = [], identity = {}, matching, a, b } = result;
  const level = (name) => levels.find((one) => one.level === name) ?? {};
  const names = [...new Set([...Object.keys(a ?? {}), ...Object.keys(b ?? {})])];
  return html`
    <${Section} title="Which level holds" note="From the strongest down: what holds at one level holds at those after it.">
      <${Ladder} levels=${levels} />
    <//>
    <${Section} title="Identity">
      <p>${identity.bug && html`<${Verdict} verdict="bug" /> `}${identity.statement}</p>
      <${Fields} caption="Fields of the identity that differ" fields=${identity.differing} sides=${["a", "b"]} />
      <${Fields} caption="Fields of the deployment that differ" fields=${identity.deployment_differing} sides=${["a", "b"]} />
    <//>
    <${Distribution} level=${level("distribution")} />
    <${Quality} level=${level("quality")} />
    <${Section} title="What was compared">
      <${Table} caption="The two sides" columns=${["Field", "a", "b"]} rows=${names.map((name) => [words(name), html`<${Value} name=${name} value=${a?.[name]} />`, html`<${Value} name=${name} value=${b?.[name]} />`])} />
      <${Facts} facts=${{ date: result.date, asked_level: result.asked_level, ...matching }} />
      ${result.command && html`<p class="command"><span class="note">Command</span> <code>${result.command}</code></p>`}
    <//>`;
}
