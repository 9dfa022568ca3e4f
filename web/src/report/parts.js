// What the pages of all kinds are made of: header and footer, facts, tables, verdicts, differences.
import { logprob, NONE, number, seconds } from "../format.js";
import { html } from "../html.js";

const MARKS = { good: "✓", bad: "✗", open: "?", none: "–" };
const TONES = {
  ...{ pass: "good", holds: "good", same: "good", faster: "good" },
  ...{ fail: "bad", drift: "bad", bug: "bad", differs: "bad" },
  ...{ undecided: "open", slower: "open", mixed: "open", approved: "open" },
};

export const toneOf = (verdict) => TONES[verdict] ?? "none";

/** not_testable -> "not testable". */
export const words = (name) => String(name).replaceAll("_", " ");

/** "pass" -> "Pass". */
export const sentence = (name) => words(name).replace(/^./, (first) => first.toUpperCase());

/** A verdict: told by word, mark and colour. */
export function Verdict({ verdict, children }) {
  const tone = toneOf(verdict);
  return html`<span class="chip ${tone}"><span aria-hidden="true">${MARKS[tone]}</span> ${children ?? words(verdict)}</span>`;
}

/** A digest, cut where a line may break. */
export function Digest({ value }) {
  const groups = String(value).match(/.{1,16}/g) ?? [];
  return html`<span class="digest">${groups.map((group) => html`${group}<wbr />`)}</span>`;
}

const DIGEST = /^[0-9a-f]{32,}$/;

/** Any value of a document in few words; nested objects as "name value, name value". */
export function shown(value) {
  if (value === null || value === undefined || value === "") return NONE;
  if (value === true) return "yes";
  if (value === false) return "no";
  if (typeof value === "number") return plain(value);
  if (Array.isArray(value)) return value.length === 0 ? NONE : value.map(shown).join(", ");
  if (typeof value !== "object") return String(value);
  return Object.entries(value)
    .map(([name, part]) => `${words(name)} ${shown(part)}`)
    .join(", ");
}

function plain(value) {
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  return String(Number(value.toPrecision(6)));
}

export function bytes(value) {
  if (typeof value !== "number") return NONE;
  const power = Math.min(4, Math.max(0, Math.floor(Math.log2(Math.max(value, 1)) / 10)));
  return `${number(value / 1024 ** power)} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

/** A value of the field `name`, which may tell its unit; digests may break. */
export function Value({ name, value }) {
  if (Array.isArray(value) && value.some((one) => DIGEST.test(one))) return value.map((one) => html`<${Digest} value=${one} /> `);
  if (typeof value === "string" && DIGEST.test(value)) return html`<${Digest} value=${value} />`;
  if (/_bytes$/.test(name)) return bytes(value);
  if (/(^|_)seconds$/.test(name)) return seconds(value);
  return shown(value);
}

const label = (name) => sentence(name.replace(/_(bytes|seconds)$/, "")).replace(/\b(cpu|isa|kv|kl)\b/gi, (short) => short.toUpperCase());

/** facts: { name: value }; what is unknown or empty is left out. */
export function Facts({ facts }) {
  const known = Object.entries(facts).filter(([, value]) => shown(value) !== NONE);
  return html`
    <dl class="facts">
      ${known.map(([name, value]) => html`<div key=${name}><dt>${label(name)}</dt><dd><${Value} name=${name} value=${value} /></dd></div>`)}
    </dl>`;
}

/** A part of the page under its heading. */
export function Section({ title, note, children }) {
  const id = `s-${title.toLowerCase().replace(/\W+/g, "-")}`;
  return html`
    <section class="panel" aria-labelledby=${id}>
      <h2 id=${id}>${title}</h2>
      ${note && html`<p class="note">${note}</p>`}
      ${children}
    </section>`;
}

/**
 * columns: titles, in quotes with a leading ">" for figures, which stand to the right. rows: arrays of cells, the first of
 * which names its row. The caption is for everyone who does not see the heading above; `shown` puts it on the page.
 */
export function Table({ caption, columns, rows, visible = false, wide = false }) {
  const right = columns.map((title) => title.startsWith(">"));
  return html`
    <div class="scroll" role="region" aria-label=${caption} tabindex="0">
      <table class=${wide ? "wide" : ""}>
        <caption class=${visible ? "" : "sr"}>${caption}</caption>
        <thead>
          <tr>${columns.map((title, at) => html`<th scope="col" class=${right[at] ? "right" : ""}>${title.replace(/^>/, "")}</th>`)}</tr>
        </thead>
        <tbody>
          ${rows.map(
            ([head, ...cells]) => html`
            <tr>
              <th scope="row">${head}</th>
              ${cells.map((cell, at) => html`<td class=${right[at + 1] ? "right" : ""}>${cell ?? NONE}</td>`)}
            </tr>`,
          )}
        </tbody>
      </table>
    </div>`;
}

const exactly = (value) => (typeof value === "number" ? String(value) : shown(value));
const side = ({ value, bits } = {}) => `${bits ? logprob(value) : exactly(value)}${bits ? ` (${bits})` : ""}`;

/**
 * Where two answers part: as src/audit/difference.h tells it (field, position, was, is), or in the gate's words (what, step,
 * expected, found, and the texts of tokens), with the request and the value in front.
 */
export function Difference({ difference }) {
  if (!difference) return NONE;
  const token = (id, text) => ({ value: text === undefined ? id : `${id} ${JSON.stringify(text)}` });
  const field = difference.field ?? words(difference.what ?? "");
  const position = difference.position ?? difference.step;
  const was = difference.was ?? token(difference.expected, difference.expected_text);
  const is = difference.is ?? token(difference.found, difference.found_text);
  const request = difference.request ?? difference.id;
  return html`
    <span class="difference">
      ${request !== undefined && html`${shown(request)}${shown(difference.value) !== NONE && ` at ${shown(difference.value)}`}: `}
      <span class="mono">${field}${position !== undefined && `[${position}]`}</span> was${" "}
      <span class="mono">${side(was)}</span>, is <span class="mono">${side(is)}</span>
    </span>`;
}

export function Header({ title, result }) {
  const counts = Object.entries(result.counts ?? {});
  return html`
    <header>
      <p class="brand">Eadem</p>
      <h1>${title}</h1>
    </header>
    <section class="banner ${toneOf(result.verdict)}" aria-label="Verdict">
      <p class="verdict"><strong>${sentence(result.verdict ?? "")}</strong> ${result.summary}</p>
      ${
        counts.length > 0 &&
        html`<dl class="counts">
          ${counts.map(([name, count]) => html`<div key=${name}><dt>${words(name)}</dt><dd>${shown(count)}</dd></div>`)}
        </dl>`
      }
    </section>`;
}

function save(text, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export function Footer({ text, result }) {
  return html`
    <footer>
      <p>
        Made by Eadem${result.version && ` ${result.version}`}. This file loads nothing and sends nothing; all that it shows
        is kept in it as JSON.
      </p>
      <button type="button" onClick=${() => save(text, `${result.kind}.json`)}>Save the JSON</button>
    </footer>`;
}
