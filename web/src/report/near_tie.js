// The page of the near-tie report: how often the two best tokens lie within what free-order arithmetic moves.
import { percent } from "../format.js";
import { html } from "../html.js";
import { Histograms, scale, Strips, ticks } from "./chart.js";
import { Facts, Section, shown, Table, words } from "./parts.js";

/** Where in its answer each prompt has a near tie. */
function Positions({ prompts }) {
  const last = Math.max(...prompts.map(({ positions }) => positions), 1);
  if (!prompts.some(({ at_risk: count }) => count > 0)) return html`<p>No position is at risk.</p>`;
  const risky = ({ at = [] }) => at.filter((one) => one.at_risk).map(({ position }) => position);
  return html`<${Strips}
    label=${`Positions at risk: ${prompts.map((prompt) => `${prompt.id} ${prompt.at_risk}`).join(", ")}`}
    at=${scale(0, last)}
    marks=${ticks(0, last)}
    format=${shown}
    rows=${prompts.map((prompt) => ({ label: prompt.id, text: `${prompt.at_risk} of ${prompt.positions}`, dots: risky(prompt) }))}
  />`;
}

const share = ({ at_risk: risky, positions }) => percent(positions ? risky / positions : null);

const named = (token, text) => html`<span class="mono">${token} ${JSON.stringify(text ?? "")}</span>`;

export function NearTie({ result }) {
  const { categories = [], runs = [], control, skipped = [] } = result;
  const { prompts = [], margins, differences, difference, subject, machine, corpus, command, counts = {} } = result;
  const ties = prompts.flatMap(({ id, at = [] }) => at.map((one) => ({ id, ...one }))).sort((a, b) => a.margin - b.margin);
  return html`
    <${Section}
      title="Margins and differences"
      note="How far the best token lies before the second, against how far free-order arithmetic moves the two: where the two overlap, a token can flip."
    >
      ${
        margins &&
        differences &&
        html`<${Histograms}
          label="Histogram of the margins between the two best tokens, and of the differences that free-order arithmetic makes"
          unit="nats, logarithmic"
          histograms=${[
            { label: "margin between the two best tokens", ...margins },
            { label: "difference that free order makes", ...differences },
          ]}
        />`
      }
      <${Facts} facts=${Object.fromEntries(Object.entries(difference ?? {}).map(([name, value]) => [`Difference, ${words(name)}`, value]))} />
    <//>
    <${Section} title="Where tokens can flip" note="A dot is a position of the answer whose margin is within the difference.">
      <${Positions} prompts=${prompts} />
    <//>
    <${Section} title="Risk per category">
      <${Table}
        caption="Positions at risk and tokens that flipped, for each category of prompts"
        columns=${["Category", ">Prompts", ">Positions", ">At risk", ">Share", ">Flipped", ">Smallest margin", ">Largest difference"]}
        rows=${categories.map((one) => [
          one.category,
          shown(one.prompts),
          shown(one.positions),
          shown(one.at_risk),
          share(one),
          shown(one.flipped),
          shown(one.smallest_margin),
          shown(one.largest_difference),
        ])}
      />
      ${
        runs.length > 0 &&
        html`<${Table}
          visible
          caption="Runs in free order"
          columns=${["Run", ">Threads", ">Rows of a step", ">Tokens flipped"]}
          rows=${runs.map((run) => [run.name, shown(run.threads), shown(run.rows), shown(run.flipped)])}
        />`
      }
      ${
        control &&
        html`<p>
          Control, ${control.run}: the same comparison in contract mode moved ${shown(control.positions)} positions by
          at most <span class="mono">${shown(control.largest_difference)}</span>.
        </p>`
      }
    <//>
    <${Section} title="Risk per prompt">
      <${Table}
        caption="Positions at risk and tokens that flipped, for each prompt"
        columns=${["Prompt", ">Positions", ">At risk", ">Share", ">Flipped", ">Smallest margin"]}
        rows=${prompts.map((prompt) => [
          prompt.id,
          shown(prompt.positions),
          shown(prompt.at_risk),
          share(prompt),
          shown(prompt.flipped),
          shown(prompt.smallest_margin),
        ])}
      />
    <//>
    <${Section} title="The nearest ties">
      <${Table}
        caption="Positions with the smallest margins"
        columns=${["Prompt", ">Position", "Best token", "Second", ">Margin", ">Difference", "At risk", "Flipped"]}
        rows=${ties.slice(0, 50).map((one) => [
          one.id,
          shown(one.position),
          named(one.token, one.text),
          named(one.runner_up, one.runner_up_text),
          shown(one.margin),
          shown(one.difference),
          shown(one.at_risk),
          shown(one.flipped),
        ])}
      />
    <//>
    ${
      skipped.length > 0 &&
      html`<${Section} title="What was left out">
        <${Table} caption="Requests that were left out, and why" columns=${["Request", "Reason"]} rows=${skipped.map(({ id, reason }) => [id, html`<span class="prose">${reason}</span>`])} />
      <//>`
    }
    <${Section} title="What was measured">
      <${Facts} facts=${{ ...subject, date: result.date, seconds: result.seconds, positions: counts.positions }} />
      <${Facts} facts=${Object.fromEntries(Object.entries(corpus ?? {}).map(([name, value]) => [`Corpus: ${words(name)}`, value]))} />
      <${Facts} facts=${{ ...machine, ...result.program }} />
      ${command && html`<p class="command"><span class="note">Command</span> <code>${command}</code></p>`}
    <//>`;
}
