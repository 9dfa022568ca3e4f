// Health and load.
import { useState } from "preact/hooks";
import { Chart } from "./chart.js";
import { CopyButton } from "./copy.js";
import { duration, grouped, NONE, number, percent, seconds, tick } from "./format.js";
import { html } from "./html.js";

const SPANS = [1, 5, 15]; // minutes

const CHARTS = [
  {
    title: "Sequences",
    format: number,
    ticks: tick.number,
    series: [
      { key: "running", label: "running" },
      { key: "waiting", label: "waiting" },
      { key: "preempted", label: "preempted in 30 s" },
    ],
  },
  {
    title: "Tokens a second",
    format: number,
    ticks: tick.number,
    series: [
      { key: "generated", label: "generated" },
      { key: "prompt", label: "prompt" },
    ],
  },
  {
    title: "Time to first token",
    note: "of 30 s",
    format: seconds,
    ticks: tick.seconds,
    series: [
      { key: "ttft50", label: "p50" },
      { key: "ttft90", label: "p90" },
      { key: "ttft99", label: "p99" },
    ],
  },
  {
    title: "Time between tokens",
    note: "of 30 s",
    format: seconds,
    ticks: tick.seconds,
    series: [
      { key: "itl50", label: "p50" },
      { key: "itl90", label: "p90" },
      { key: "itl99", label: "p99" },
    ],
  },
  {
    title: "KV cache and prefixes",
    format: percent,
    ticks: tick.percent,
    top: 1,
    series: [
      { key: "kv", label: "blocks in use" },
      { key: "hits", label: "prompt tokens from cache" },
    ],
  },
  {
    title: "Speculation",
    note: "of 30 s",
    format: percent,
    ticks: tick.percent,
    top: 1,
    series: [{ key: "acceptance", label: "drafted tokens accepted" }],
  },
];

export function Digest({ value }) {
  return html`<code class="digest">${grouped(value).map((part, at) => html`<span key=${at}>${part}</span>`)}</code>`;
}

function Health({ now }) {
  // While the model is loading, less is known.
  const facts = [
    ["Model", now.model],
    ["Numerics", now.numerics],
    ["Kernels", now.isa && `${now.isa}, ${now.threads} ${now.threads === 1 ? "thread" : "threads"}`],
    ["Context", now.max_model_len && `${number(now.max_model_len)} positions`],
    ["At once", `${number(now.max_num_seqs)} sequences`],
    ["KV cache", now.kv_blocks > 0 && `${number(now.kv_blocks)} blocks`],
    ["Version", now.version],
    ["Uptime", duration(now.uptime)],
  ];
  return html`
    <section class="panel health" aria-labelledby="health">
      <h2 id="health">Server</h2>
      <dl class="facts">
        ${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value || NONE}</dd></div>`)}
      </dl>
      ${
        now.fingerprint &&
        html`
        <dl class="facts identity">
          <div>
            <dt>Fingerprint <span class="note">(changes exactly when bits may change)</span></dt>
            <dd>
              <${Digest} value=${now.fingerprint} />${" "}
              <${CopyButton} text=${now.fingerprint} what="the fingerprint" />
            </dd>
          </div>
        </dl>`
      }
    </section>`;
}

function Totals({ now }) {
  const engine = now.engine ?? {};
  const total = (values) => Object.values(values ?? {}).reduce((sum, count) => sum + count, 0);
  const groups = [
    [
      "Requests",
      [
        ["accepted", now.requests],
        ["refused: not valid", now.refused?.invalid],
        ["refused: queue full", now.refused?.queue_full],
        ["refused: draining", now.refused?.draining],
      ],
    ],
    [
      "Answers",
      [
        ["finished", total(now.answers) - (now.answers?.cancelled ?? 0) - (now.answers?.error ?? 0)],
        ["of these at a limit", (now.answers?.length ?? 0) + (now.answers?.timeout ?? 0)],
        ["cancelled", now.answers?.cancelled],
        ["failed", now.answers?.error],
      ],
    ],
    [
      "Tokens",
      [
        ["prompt", now.prompt_tokens],
        ["of these from cache", now.cached_tokens],
        ["generated", now.generation_tokens],
        ["computed again", engine.recomputed_tokens],
      ],
    ],
    [
      "Engine",
      [
        ["steps", engine.steps],
        ["steps of several sequences", engine.mixed_steps],
        ["preemptions", engine.preemptions],
        ["prefixes evicted", engine.prefix_evictions],
      ],
    ],
    [
      "Connections",
      [
        ["open", now.http?.connections],
        ["accepted", now.http?.accepted],
        ["refused", now.http?.refused],
        ["replies with an error", errors(now.http?.status)],
      ],
    ],
  ];
  return html`
    <section class="panel totals" aria-labelledby="totals">
      <h2 id="totals">Since the start</h2>
      <div class="groups">
        ${groups.map(
          ([title, rows]) => html`
          <div key=${title}>
            <h3>${title}</h3>
            <dl>
              ${rows.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${number(value)}</dd></div>`)}
            </dl>
          </div>`,
        )}
      </div>
    </section>`;
}

function errors(status) {
  return Object.entries(status ?? {}).reduce((sum, [code, count]) => sum + (Number(code) >= 400 ? count : 0), 0);
}

const COLUMNS = ["Figure", "now", "least", "mean", "most"];

/** What the charts show, in figures: for those who cannot see them. */
function Figures({ points, span }) {
  const shown = points.filter(({ time }) => time >= points[points.length - 1].time - span);
  const rows = CHARTS.flatMap(({ title, series, format }) =>
    series.map(({ key, label }) => {
      const values = shown.map((point) => point[key]).filter((value) => value !== null && value !== undefined);
      const known = values.length > 0;
      const mean = known ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
      const cells = [
        shown[shown.length - 1][key],
        known ? Math.min(...values) : null,
        mean,
        known ? Math.max(...values) : null,
      ];
      return { name: `${title}: ${label}`, cells: cells.map(format) };
    }),
  );
  return html`
    <details class="panel figures">
      <summary>The charts in figures</summary>
      <div class="scroll" tabindex="0" role="region" aria-label="The charts in figures">
        <table>
          <thead>
            <tr>
              ${COLUMNS.map((name) => html`<th key=${name} scope="col">${name}</th>`)}
            </tr>
          </thead>
          <tbody>
            ${rows.map(
              ({ name, cells }) => html`
              <tr key=${name}>
                <th scope="row">${name}</th>
                ${cells.map((cell, at) => html`<td key=${at}>${cell}</td>`)}
              </tr>`,
            )}
          </tbody>
        </table>
      </div>
    </details>`;
}

export function Problem({ problem }) {
  return html`
    <div class="problem" role="alert">
      <strong>${problem.title}.</strong> ${problem.detail} ${problem.advice && html`<span>${problem.advice}</span>`}
    </div>`;
}

export function Overview({ stats }) {
  const [minutes, setMinutes] = useState(5);
  const { now, problem, points } = stats;
  return html`
    <h1 class="sr">Overview</h1>
    ${problem && html`<${Problem} problem=${problem} />`}
    ${!now && !problem && html`<p class="note pad">Reading the server’s state …</p>`}
    ${
      now &&
      html`
      <${Health} now=${now} />
      <section aria-labelledby="load">
        <div class="row">
          <h2 id="load">Load</h2>
          <fieldset class="segments">
            <legend class="sr">Time shown</legend>
            ${SPANS.map(
              (span) => html`
              <label key=${span}><input type="radio" name="span" checked=${minutes === span}
                onChange=${() => setMinutes(span)} /><span>${span} min</span></label>`,
            )}
          </fieldset>
        </div>
        <div class="charts">
          ${CHARTS.map(
            (chart) => html`<${Chart} key=${chart.title} ...${chart} points=${points} span=${minutes * 60} />`,
          )}
        </div>
        ${points.length > 0 && html`<${Figures} points=${points} span=${minutes * 60} />`}
      </section>
      <${Totals} now=${now} />`
    }`;
}
