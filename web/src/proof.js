// What a replay showed: equal, or where the two part.
import { floatBits, logprob, quoted } from "./format.js";
import { html } from "./html.js";
import { Problem } from "./overview.js";

const WHAT = {
  token: "another token",
  logprob: "another logprob",
  alternatives: "other alternatives",
  length: "one answer is longer",
};

function Side({ title, token }) {
  return html`
    <div>
      <h4>${title}</h4>
      ${
        token
          ? html`<dl class="facts">
            <div><dt>Token</dt><dd class="code">${quoted(token)}</dd></div>
            <div><dt>Logprob</dt><dd>${logprob(token.logprob)}</dd></div>
            <div><dt>Its float32</dt><dd>${floatBits(token.logprob)}</dd></div>
          </dl>`
          : html`<p class="note">Has ended before this token.</p>`
      }
    </div>`;
}

export function verdict(result) {
  if (result.equal)
    return `Equal: ${result.tokens} of ${result.tokens} tokens and their logprobs have the same bits.`;
  if (!result.first) {
    const odd = result.rows.filter((row) => row.equal !== row.of).map((row) => row.name.toLowerCase());
    return result.tokens === 0 ? "Different: there is no token to compare." : `Different: ${odd.join(", ")}.`;
  }
  return `Different: from token ${result.first.at + 1} on (${WHAT[result.first.what]}).`;
}

export function Proof({ result, prefix }) {
  return html`
    <div class="proof ${result.equal ? "equal" : "different"}">
      <p class="verdict"><span aria-hidden="true">${result.equal ? "=" : "≠"}</span> ${verdict(result)}</p>
      ${prefix && html`<p class="note">The first answer was cancelled; the replay is compared as far as that went.</p>`}
      ${
        result.first &&
        html`
        <div class="sides">
          <${Side} title="First answer" token=${result.first.one} />
          <${Side} title="Replay" token=${result.first.two} />
        </div>`
      }
      <dl class="facts compared" aria-label="What was compared">
        ${result.rows.map(
          (row) => html`
          <div key=${row.name} class=${row.equal === row.of ? "" : "wrong"}>
            <dt>${row.name}</dt>
            <dd>${row.whole ? (row.equal ? "equal" : "different") : `${row.equal} of ${row.of} equal`}</dd>
          </div>`,
        )}
      </dl>
    </div>`;
}

/** What the server's own check (POST /v1/verify) says, in a sentence. */
export function checked({ equal, compared, first_difference: first }) {
  const counts = `${compared.tokens} tokens and ${compared.logprobs} logprobs`;
  if (equal) return `Equal: the server computed ${counts} again and found the same bits.`;
  const [is, was] = [first.computed, first.given].map((value) => value ?? "none");
  return `Different: token ${first.index + 1} has the ${first.what} ${was}, and the server computed ${is}.`;
}

export function Verified({ verified }) {
  if (verified.problem) return html`<${Problem} problem=${verified.problem} />`;
  return html`
    <div class="proof ${verified.equal ? "equal" : "different"}">
      <p class="verdict"><span aria-hidden="true">${verified.equal ? "=" : "≠"}</span> ${checked(verified)}</p>
    </div>`;
}
