// Charts as SVG of percentages and pixels: they follow the width of the screen and of the paper, and the text in them
// does not scale. What they show stands in a table beside them too.
import { html } from "../html.js";

/** A scale of [low, high] onto 0 to 100 %; `log` for positive values. Values outside stop at its ends. */
export function scale(low, high, log = false) {
  const by = log ? (value) => Math.log10(Math.max(value, Number.MIN_VALUE)) : (value) => value;
  const [from, to] = [by(low), by(high)];
  const width = to - from || 1;
  return (value) => Math.min(100, Math.max(0, ((by(value) - from) / width) * 100));
}

const pc = (value) => `${Number(value.toFixed(3))}%`;

/** Round values within [low, high], about `count` of them. */
export function ticks(low, high, count = 4) {
  const raw = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; ++at) found.push(Number((at * step).toPrecision(12)));
  return found;
}

/** Powers of ten within [low, high]. */
export function decades(low, high) {
  const found = [];
  for (let power = Math.ceil(Math.log10(low) - 1e-9); power <= Math.log10(high) + 1e-9; ++power) found.push(10 ** power);
  return found;
}

const anchor = (at) => (at < 2 ? "start" : at > 98 ? "end" : "middle");

function Axis({ at, marks, format }) {
  return html`
    <svg class="axis" aria-hidden="true">
      ${marks.map((mark) => html`<text x=${pc(at(mark))} y="13" text-anchor=${anchor(at(mark))}>${format(mark)}</text>`)}
    </svg>`;
}

const Grid = ({ at, marks }) =>
  marks.map((mark) => html`<line class="grid" x1=${pc(at(mark))} x2=${pc(at(mark))} y1="0" y2="100%" />`);

/** One bar a row: [{ label, value, text }]. */
export function Bars({ label, rows }) {
  const at = scale(0, Math.max(...rows.map(({ value }) => value), 1e-9));
  return html`
    <div class="rows" role="img" aria-label=${label}>
      ${rows.map(
        ({ label: name, value, text }) => html`
        <div class="line" key=${name}>
          <span class="name">${name}</span>
          <svg class="short"><rect class="bar" y="4" height="9" width=${pc(at(value))} /></svg>
          <span class="value">${text}</span>
        </div>`,
      )}
    </div>`;
}

/**
 * One strip a row over one axis: [{ label, text, dots: [value], low, high, estimate }], each mark optional.
 * marks: values of the axis. zero: where a line is drawn through all. band: [low, high], shaded.
 */
export function Strips({ label, rows, at, marks, format, zero, band }) {
  return html`
    <div class="rows" role="img" aria-label=${label}>
      ${rows.map(
        ({ label: name, text, dots = [], low, high, estimate }) => html`
        <div class="line" key=${name}>
          <span class="name">${name}</span>
          <div class="plot"><svg>
            ${band && html`<rect class="band" x=${pc(at(band[0]))} width=${pc(at(band[1]) - at(band[0]))} height="100%" />`}
            <${Grid} at=${at} marks=${marks} />
            ${zero !== undefined && html`<line class="zero" x1=${pc(at(zero))} x2=${pc(at(zero))} y1="0" y2="100%" />`}
            ${dots.map((dot) => html`<circle class="dot" cx=${pc(at(dot))} cy=${low === undefined ? "50%" : 18} r="2.5" />`)}
            ${low !== undefined && html`<line class="interval" x1=${pc(at(low))} x2=${pc(at(high))} y1="8" y2="8" />`}
            ${estimate !== undefined && html`<circle class="estimate" cx=${pc(at(estimate))} cy="8" r="4" />`}
          </svg></div>
          <span class="value">${text}</span>
        </div>`,
      )}
      <div class="line"><span class="name"></span><${Axis} at=${at} marks=${marks} format=${format} /><span class="value"></span></div>
    </div>`;
}

/** Histograms over one logarithmic axis: [{ label, edges, counts }], the first filled, the second as steps. */
export function Histograms({ label, histograms, unit }) {
  const height = 150;
  const used = histograms.flatMap(({ edges, counts }) => edges.filter((_, at) => counts[at] || counts[at - 1]));
  const [low, high] = [Math.min(...used), Math.max(...used)];
  const at = scale(low, high, true);
  const marks = decades(low, high);
  const top = Math.max(...histograms.flatMap(({ counts }) => counts), 1);
  const bars = ({ edges, counts }, series) =>
    counts.map((count, bin) => {
      if (count === 0) return null;
      const [left, right] = [at(edges[bin]), at(edges[bin + 1])];
      const tall = (count / top) * (height - 4);
      return html`<rect class="fill-${series}" x=${pc(left)} width=${pc(right - left)} y=${height - tall} height=${tall} />`;
    });
  return html`
    <div role="img" aria-label=${label}>
      <p class="legend">
        ${histograms.map(({ label: name }, at) => html`<span><svg class="key" width="14" height="10"><rect class="fill-${at + 1}" width="14" height="10" /></svg> ${name}</span>`)}
      </p>
      <svg class="histogram" height=${height}>
        <${Grid} at=${at} marks=${marks} />
        ${histograms.map((histogram, series) => bars(histogram, series + 1))}
        <line class="base" x1="0" x2="100%" y1=${height} y2=${height} />
      </svg>
      <${Axis} at=${at} marks=${marks} format=${(mark) => power(mark)} />
      <p class="note unit">${unit}</p>
    </div>`;
}

const SUPERSCRIPTS = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** 0.001 -> "10⁻³"; 1 and 10 stay. */
export function power(value) {
  const exponent = Math.round(Math.log10(value));
  if (exponent === 0 || exponent === 1) return String(value);
  return `10${[...String(exponent)].map((digit) => SUPERSCRIPTS[digit]).join("")}`;
}
