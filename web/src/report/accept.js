// The page of the acceptance matrix (the document is MatrixResult of src/audit/verdict.h).
import { NONE, seconds } from "../format.js";
import { html } from "../html.js";
import { Bars } from "./chart.js";
import { Difference, Digest, Facts, Section, shown, Table, Verdict, words } from "./parts.js";

/** Cells of one name together: [{ name, cell (what they have in common), by: { numerics: cell } }]. */
function grouped(cells) {
  const found = new Map();
  for (const cell of cells) {
    if (!found.has(cell.name)) found.set(cell.name, { name: cell.name, cell, by: {} });
    found.get(cell.name).by[cell.numerics ?? ""] = cell;
  }
  return [...found.values()];
}

const anchor = (name) => `cell-${name}`;

function Outcome({ cell }) {
  if (!cell) return NONE;
  return html`<span class="outcome"><${Verdict} verdict=${cell.verdict} />${cell.compared > 0 && ` ${cell.equal}/${cell.compared}`}</span>`;
}

function Matrix({ groups, numerics }) {
  return html`
    <${Table}
      wide
      caption="The matrix: what must hold, what was varied, and the verdict under each numerics"
      columns=${["Cell", "What must hold", "What was varied", "Level", ...numerics.map((name) => name || "Verdict")]}
      rows=${groups.map(({ name, cell, by }) => [
        html`<a href="#${anchor(name)}">${name}</a>`,
        html`<span class="prose">${cell.invariant}</span>`,
        html`<span class="prose">${cell.variable}</span><span class="values">${shown(cell.values)}</span>`,
        cell.level,
        ...numerics.map((key) => html`<${Outcome} cell=${by[key]} />`),
      ])}
    />`;
}

const failing = (cell) => cell.verdict === "fail";

function Failures({ cells }) {
  const failed = cells.filter(failing);
  if (failed.length === 0) return null;
  return html`
    <${Section} title="What failed">
      <${Table}
        caption="Cells that failed, with the first difference that was found"
        columns=${["Cell", "Numerics", "Reason", "First difference"]}
        rows=${failed.map((cell) => [cell.name, cell.numerics, html`<span class="prose">${cell.reason}</span>`, html`<${Difference} difference=${cell.first_difference} />`])}
      />
    <//>`;
}

function Control({ cells }) {
  return html`
    <${Section}
      title="Negative control"
      note="The same comparison on arithmetic that is known to depend on the batch. It passes where differences are found; were there none, the matrix would have proved nothing."
    >
      ${
        cells.length === 0
          ? html`<p>No control was part of this matrix, so it does not show that a difference would have been seen.</p>`
          : html`<${Table}
            caption="The control's cells, and the first difference that each found"
            columns=${["Control", "Numerics", "Verdict", "Answers that differed", "First difference"]}
            rows=${cells.map((cell) => [
              cell.name,
              cell.numerics,
              html`<${Verdict} verdict=${cell.verdict} />`,
              `${cell.compared - cell.equal} of ${cell.compared}`,
              cell.first_difference ? html`<${Difference} difference=${cell.first_difference} />` : cell.reason,
            ])}
          />`
      }
    <//>`;
}

function Left({ cells }) {
  const left = cells.filter(({ verdict }) => verdict === "not_testable" || verdict === "not_run");
  if (left.length === 0) return null;
  return html`
    <${Section} title="What was not tested">
      <${Table}
        caption="Cells without a verdict, and why"
        columns=${["Cell", "Numerics", "Verdict", "Reason"]}
        rows=${left.map(({ name, numerics, verdict, reason }) => [name, numerics, words(verdict), html`<span class="prose">${reason}</span>`])}
      />
    <//>`;
}

function Times({ groups, total }) {
  const rows = groups
    .map(({ name, by }) => ({ label: name, value: Object.values(by).reduce((sum, cell) => sum + (cell.seconds ?? 0), 0) }))
    .filter(({ value }) => value > 0)
    .map((row) => ({ ...row, text: seconds(row.value) }));
  if (rows.length === 0) return null;
  const longest = rows.reduce((most, row) => (row.value > most.value ? row : most));
  return html`
    <${Section} title="Time per cell" note=${total && `Of ${seconds(total)} in all; the numerics of a cell are added up.`}>
      <${Bars} label=${`Time per cell; the longest is ${longest.label} with ${longest.text}`} rows=${rows} />
    <//>`;
}

/** What counted in the runs of a cell: a row for each value. */
function Runs({ cell }) {
  const runs = cell.evidence?.runs ?? [];
  if (runs.length === 0) return null;
  return html`<${Table}
    visible
    caption=${`Runs${cell.numerics ? ` under ${cell.numerics}` : ""}`}
    columns=${["Value", ">Equal", ">Compared", "Proof that the way was taken", "Counters"]}
    rows=${runs.map((run) => [
      shown(run.value),
      shown(run.equal),
      shown(run.compared),
      html`${(run.proof ?? []).map(({ condition, counted, held }) => html`<div><${Verdict} verdict=${held ? "pass" : "fail"}>${condition}: ${shown(counted)}<//></div>`)}`,
      html`<span class="counters">${shown(run.counters)}</span>`,
    ])}
  />`;
}

function Hashes({ cell }) {
  const requests = cell.evidence?.requests ?? [];
  if (requests.length === 0) return null;
  const names = [...new Set(requests.flatMap((request) => Object.keys(request)))].filter((name) => name !== "id");
  return html`<${Table}
    visible
    caption=${`Answers${cell.numerics ? ` under ${cell.numerics}` : ""}`}
    columns=${["Request", ...names.map(words)]}
    rows=${requests.map((request) => [
      shown(request.id),
      ...names.map((name) => (/_hash$/.test(name) ? html`<${Digest} value=${request[name]} />` : shown(request[name]))),
    ])}
  />`;
}

function Evidence({ groups }) {
  return html`
    <${Section} title="Evidence" note="Per cell: what was counted, the proof that its way was taken, and the hashes of the answers.">
      ${groups.map(({ name, cell, by }) => {
        const cells = Object.values(by);
        const { runs, requests, ...more } = cell.evidence ?? {};
        return html`
          <details key=${name} open=${cells.some(failing)}>
            <summary>
              <h3>${name}</h3>
              ${cells.map((one) => html` <${Verdict} verdict=${one.verdict}>${one.numerics ? `${one.numerics} ` : ""}${words(one.verdict)}<//>`)}
            </summary>
            <div id=${anchor(name)} class="evidence">
              <p>${cell.invariant}</p>
              ${cells.map(
                (one) => html`
                ${one.reason && html`<p><${Verdict} verdict=${one.verdict} /> ${one.numerics} ${one.reason}</p>`}
                ${one.first_difference && html`<p>First difference: <${Difference} difference=${one.first_difference} /></p>`}
                <${Runs} cell=${one} />
                <${Hashes} cell=${one} />`,
              )}
              <${Facts} facts=${more} />
            </div>
          </details>`;
      })}
    <//>`;
}

export function Accept({ result }) {
  const cells = result.cells ?? [];
  const groups = grouped(cells.filter(({ control }) => !control));
  const numerics = [...new Set(cells.map((cell) => cell.numerics ?? ""))];
  const { model, matrix, target, started, command } = result;
  return html`
    <${Section} title="What was held to the contract">
      <${Facts} facts=${{ model, target, matrix, started, seconds: result.seconds, interrupted: result.interrupted || undefined, corpus: result.corpus?.name, requests: result.corpus?.requests, corpus_digest: result.corpus?.digest }} />
      <${Facts} facts=${Object.fromEntries(Object.entries(result.identities ?? {}).map(([name, digest]) => [`Identity, ${name}`, digest]))} />
      <${Facts} facts=${{ ...result.machine, ...result.options }} />
      ${command && html`<p class="command"><span class="note">Command</span> <code>${command}</code></p>`}
    <//>
    <${Failures} cells=${cells} />
    <${Section} title="Matrix" note="Behind each verdict: how many answers were equal to their baseline, of how many compared."><${Matrix} groups=${groups} numerics=${numerics} /><//>
    <${Control} cells=${cells.filter(({ control }) => control)} />
    <${Left} cells=${cells} />
    <${Times} groups=${grouped(cells)} total=${result.seconds} />
    <${Evidence} groups=${grouped(cells)} />`;
}
