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

const under = ({ name, numerics }) => (numerics ? `${name} under ${numerics}` : name);

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
        columns=${["Cell", "Numerics", "Answers that differed", "First difference, or reason"]}
        rows=${failed.map((cell) => [
          cell.name,
          cell.numerics,
          `${cell.compared - cell.equal} of ${cell.compared}`,
          cell.first_difference
            ? html`<${Difference} difference=${cell.first_difference} />`
            : html`<span class="prose">${cell.reason}</span>`,
        ])}
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
          ? html`<p>No control was part of this matrix: hold the same one against a server that is known to vary, to see that it would find a difference.</p>`
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

const proofs = ({ proof = [] }) =>
  proof.map(
    ({ condition, counted, held }) =>
      html`<div><${Verdict} verdict=${held ? "pass" : "fail"}>${condition}: ${shown(counted)}<//></div>`,
  );

/** Whether requests met in one batch, as far as a client can see it. */
const meetings = ({ co_residency: all = [] }) =>
  all.map(
    ({ request, reached, how }) =>
      html`<div class="prose"><${Verdict} verdict=${reached ? "pass" : "undecided"}>${reached ? "met" : "not seen to meet"}<//> ${request}: ${how}</div>`,
  );

const also = ({ counters, value, compared, equal, seconds: _, proof, co_residency, ...more }) => ({ ...counters, ...more });

/** What counted in the runs of a cell: a row for each value, and columns for what there is. */
function Runs({ cell }) {
  const runs = cell.evidence?.runs ?? [];
  if (runs.length === 0) return null;
  const columns = [
    [">Equal", (run) => shown(run.equal), "equal"],
    [">Compared", (run) => shown(run.compared), "compared"],
    ["Proof that the way was taken", proofs, "proof"],
    ["Met in one batch", meetings, "co_residency"],
    ["Counters", (run) => html`<span class="counters">${shown(also(run))}</span>`],
  ].filter(([, , field]) => runs.some((run) => (field ? field in run : Object.keys(also(run)).length > 0)));
  return html`<${Table}
    visible
    caption=${`Runs of ${under(cell)}`}
    columns=${["Value", ...columns.map(([title]) => title)]}
    rows=${runs.map((run) => [shown(run.value), ...columns.map(([, show]) => show(run))])}
  />`;
}

function Hashes({ requests, caption }) {
  if (!Array.isArray(requests) || requests.length === 0) return null;
  const names = [...new Set(requests.flatMap((request) => Object.keys(request)))].filter((name) => name !== "id");
  return html`<${Table}
    visible
    caption=${caption}
    columns=${["Request", ...names.map(words)]}
    rows=${requests.map((request) => [
      shown(request.id),
      ...names.map((name) => (/_hash$/.test(name) ? html`<${Digest} value=${request[name]} />` : shown(request[name]))),
    ])}
  />`;
}

const MOST_OPEN = 3; // of cells that failed; were more of them open, nobody would find the next one

function Evidence({ groups, answers }) {
  const failed = groups.filter(({ by }) => Object.values(by).some(failing));
  return html`
    <${Section} title="Evidence" note="Per cell: what was counted, the proof that its way was taken, and the hashes of the answers.">
      ${groups.map(({ name, cell, by }) => {
        const cells = Object.values(by);
        const { runs, requests, ...more } = cell.evidence ?? {};
        return html`
          <details key=${name} open=${failed.length <= MOST_OPEN && cells.some(failing)}>
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
                <${Hashes} requests=${one.evidence?.requests} caption=${`Answers of ${under(one)}`} />`,
              )}
              <${Facts} facts=${more} />
            </div>
          </details>`;
      })}
      ${answers && html`<details><summary>Answers of the requests alone</summary><${Hashes} requests=${answers} caption="Answers that all others were compared with" /></details>`}
    <//>`;
}

export function Accept({ result }) {
  const cells = result.cells ?? [];
  const groups = grouped(cells.filter(({ control }) => !control));
  const numerics = [...new Set(cells.map((cell) => cell.numerics ?? ""))];
  const { model, matrix, target, started, command } = result;
  const { endpoint, ...options } = result.options ?? {};
  const answers = Array.isArray(result.corpus?.requests) ? result.corpus.requests : null;
  return html`
    <${Section} title="What was held to the contract">
      <${Facts} facts=${{ model, target, matrix, started, seconds: result.seconds, interrupted: result.interrupted || undefined, corpus: result.corpus?.name, requests: answers ? answers.length : result.corpus?.requests, corpus_digest: result.corpus?.digest }} />
      <${Facts} facts=${Object.fromEntries(Object.entries(result.identities ?? {}).map(([name, digest]) => [`Identity, ${name}`, digest]))} />
      <${Facts} facts=${{ ...result.machine, ...options }} />
      ${
        endpoint &&
        html`<details>
          <summary>What the endpoint can do</summary>
          <${Facts} facts=${{ ...endpoint, ...endpoint.fingerprint, fingerprint: endpoint.fingerprint?.fingerprint }} />
        </details>`
      }
      ${command && html`<p class="command"><span class="note">Command</span> <code>${command}</code></p>`}
    <//>
    <${Failures} cells=${cells} />
    <${Section} title="Matrix" note="Behind each verdict: how many answers were equal to their baseline, of how many compared."><${Matrix} groups=${groups} numerics=${numerics} /><//>
    <${Control} cells=${cells.filter(({ control }) => control)} />
    <${Left} cells=${cells} />
    <${Times} groups=${grouped(cells)} total=${result.seconds} />
    <${Evidence} groups=${grouped(cells)} answers=${answers} />`;
}
