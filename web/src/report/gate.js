// The page of the drift gate.
import { html } from "../html.js";
import { decades, power, scale, Strips } from "./chart.js";
import { Fields } from "./diff.js";
import { Difference, Digest, Facts, Section, shown, Table, Verdict, words } from "./parts.js";

const CAUSES = {
  none: "No answer moved.",
  identity_changed: "The identity changed, so other bits are no fault: if the change is meant, approve it with a reason.",
  bits_changed: "The identity is equal and bits moved: a bug. The cause is among what differs of the deployment.",
};

const drifted = ({ verdict }) => verdict === "drift" || verdict === "approved";

/** Distances of logprobs, a strip for each category; zero stands at the left end. */
function Distances({ requests }) {
  const positive = requests.map((request) => request.logprob_distance).filter((value) => value > 0);
  if (positive.length === 0) return html`<p>None was measured: no logprob moved, or the baseline is a brief one.</p>`;
  const low = 10 ** (Math.floor(Math.log10(Math.min(...positive))) - 1);
  const high = 10 ** Math.ceil(Math.log10(Math.max(...positive)));
  const at = scale(low, high, true);
  const marks = decades(low, high);
  const categories = [...new Set(requests.map(({ category }) => category))];
  const rows = categories.map((category) => {
    const own = requests.filter((request) => request.category === category);
    const moved = own.filter((request) => request.logprob_distance > 0).length;
    return { label: category, text: `${moved} of ${own.length} moved`, dots: own.map((request) => Math.max(low, request.logprob_distance ?? 0)) };
  });
  return html`<${Strips}
    label=${`Distance of logprobs: ${rows.map(({ label, text }) => `${label} ${text}`).join("; ")}`}
    rows=${rows}
    at=${at}
    marks=${marks}
    format=${(mark) => (mark === marks[0] ? "0" : power(mark))}
  />`;
}

function Drift({ requests }) {
  const moved = requests.filter(drifted);
  if (moved.length === 0) return html`<p>Nothing: every answer is the baseline's, at its level.</p>`;
  return html`<${Table}
    wide
    caption="Requests that drifted, where, and by how much"
    columns=${["Request", "Level", "Verdict", "First difference", ">Tokens that differ", ">Logprob distance", ">KL", ">Near-tie margin"]}
    rows=${moved.map((request) => [
      request.id,
      request.level,
      html`<${Verdict} verdict=${request.verdict} />`,
      html`<${Difference} difference=${{ ...request.first_difference, request: undefined }} />`,
      shown(request.tokens_different),
      shown(request.logprob_distance),
      shown(request.kl),
      shown(request.near_tie_margin),
    ])}
  />`;
}

function Approvals({ approvals }) {
  if (approvals.length === 0) return html`<p>None was ever approved for this baseline.</p>`;
  return html`<${Table}
    caption="Approved breaks, by whom and why"
    columns=${["Date", "Counts", "Signer", "Reason", ">Answers", "Key", "Baseline would be"]}
    rows=${approvals.map((one) => [
      one.date,
      one.counts === false ? html`<span class="prose"><${Verdict} verdict="bug">no<//> ${one.fault}</span>` : "yes",
      html`<span class="prose">${one.signer}</span>`,
      html`<span class="prose">${one.reason}</span>`,
      shown(one.requests),
      html`<${Digest} value=${one.key_id} />`,
      html`<${Digest} value=${one.to} />`,
    ])}
  />`;
}

export function Gate({ result }) {
  const { requests = [], approvals = [], baseline, corpus, subject, machine, command } = result;
  const sides = ["baseline", "now"];
  return html`
    <${Section} title="What drifted"><${Drift} requests=${requests} /><//>
    <${Section} title="Identity or bug" note="Another identity may give other bits. Other bits under an equal identity are a bug.">
      <p>${CAUSES[result.cause] ?? result.cause}</p>
      <${Fields} caption="Fields of the identity that differ" fields=${result.identity_differences} sides=${sides} />
      <${Fields} caption="Fields of the deployment that differ" fields=${result.deployment_differences} sides=${sides} />
    <//>
    <${Section} title="Distance of logprobs" note="The greatest of each request; a dot is a request."><${Distances} requests=${requests} /><//>
    <${Section} title="Approved breaks"><${Approvals} approvals=${approvals} /><//>
    <${Section} title="Every request">
      <details>
        <summary>${requests.length} requests</summary>
        <${Table}
          caption="Every request of the corpus and its verdict"
          columns=${["Request", "Category", "Level", "Verdict", ">Tokens", "Reason"]}
          rows=${requests.map(({ id, category, level, verdict, tokens, reason }) => [
            id,
            category,
            level,
            html`<${Verdict} verdict=${verdict} />`,
            shown(tokens),
            reason && html`<span class="prose">${reason}</span>`,
          ])}
        />
      </details>
    <//>
    <${Section} title="What was compared">
      <${Facts} facts=${{ ...subject, date: result.date, seconds: result.seconds }} />
      <${Facts} facts=${Object.fromEntries(Object.entries(baseline ?? {}).map(([name, value]) => [`Baseline: ${words(name)}`, value]))} />
      <${Facts} facts=${Object.fromEntries(Object.entries(corpus ?? {}).map(([name, value]) => [`Corpus: ${words(name)}`, value]))} />
      <details><summary>Where it ran</summary><${Facts} facts=${{ ...machine, ...result.program }} /></details>
      ${command && html`<p class="command"><span class="note">Command</span> <code>${command}</code></p>`}
    <//>`;
}
