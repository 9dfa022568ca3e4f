// The tokens of an answer, coloured by probability, and what the model thought of the one that is looked at.
import { Component } from "preact";
import { useRef } from "preact/hooks";
import { floatBits, known, logprob, percent, quoted, stand } from "./format.js";
import { html } from "./html.js";

const LEVELS = [
  { from: 0.9, label: "90 % and more" },
  { from: 0.5, label: "50 to 90 %" },
  { from: 0.1, label: "10 to 50 %" },
  { from: 0, label: "below 10 %" },
];
const PAGE = 10;

const probability = (token) => (known(token.logprob) === null ? null : Math.exp(token.logprob));
const level = (token) => LEVELS.findIndex(({ from }) => (probability(token) ?? 0) >= from);

function spoken(token, at, count) {
  return `${quoted(token)}, ${percent(probability(token))}, token ${at + 1} of ${count}`;
}

/** The text as it is; line ends get a mark, and so does what has no text of its own. */
function shownText(token) {
  const other = stand(token);
  if (other !== null) return html`<span class="mark">⟨${other}⟩</span>`;
  return token.text.split(/(\n)/).map((part) => (part === "\n" ? html`<span class="mark">↵</span>${"\n"}` : part));
}

// Only what changed is drawn again: an answer may have thousands of tokens.
class Token extends Component {
  shouldComponentUpdate(next) {
    return ["token", "active", "stop", "differs", "last"].some((name) => next[name] !== this.props[name]);
  }

  render({ token, at, count, active, stop, differs }) {
    const classes = `token level-${level(token)}${differs ? " differs" : ""}`;
    return html`
      <span id=${`token-${at}`} class=${classes} role="option" data-at=${at} tabindex=${stop ? 0 : -1}
        aria-selected=${active ? "true" : "false"} aria-label=${spoken(token, at, count)}>${shownText(token)}</span>`;
  }
}

function indexOf(event) {
  const element = event.target.closest?.("[data-at]");
  return element ? Number(element.dataset.at) : null;
}

export function Tokens({ tokens, active, differsAt, onActive }) {
  const box = useRef(null);
  const point = (event) => {
    const at = indexOf(event);
    if (at !== null) onActive(at);
  };
  const keys = (event) => {
    const at = indexOf(event);
    if (at === null || event.ctrlKey || event.altKey || event.metaKey) return;
    const steps = {
      ArrowRight: at + 1,
      ArrowDown: at + 1,
      ArrowLeft: at - 1,
      ArrowUp: at - 1,
      PageDown: at + PAGE,
      PageUp: at - PAGE,
      Home: 0,
      End: tokens.length - 1,
    };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const to = Math.min(Math.max(steps[event.key], 0), tokens.length - 1);
    box.current.querySelector(`[data-at="${to}"]`).focus();
  };
  const stop = active ?? 0;
  return html`
    <div ref=${box} class="tokens" role="listbox" aria-label="Tokens of the answer; arrow keys move"
      aria-orientation="horizontal" onMouseOver=${point} onFocusIn=${point} onClick=${point} onKeyDown=${keys}>
      ${tokens.map(
        (token, at) => html`
        <${Token} key=${at} token=${token} at=${at} count=${tokens.length} active=${active === at} stop=${stop === at}
          differs=${differsAt === at} />`,
      )}
    </div>`;
}

export function Legend() {
  return html`
    <ul class="levels" aria-label="Colours: probability of the token">
      ${LEVELS.map(
        ({ label }, at) => html`
          <li key=${label}><span class="token level-${at}" aria-hidden="true">ab</span> ${label}</li>`,
      )}
    </ul>
    <p class="note">The model’s own probabilities: before temperature and top_p.</p>`;
}

export function Inspector({ token, at }) {
  if (!token) {
    return html`
      <section class="inspector" aria-labelledby="inspector">
        <h3 id="inspector">Token</h3>
        <p class="note">Point at a token of the answer, touch it, or tab to it and use the arrow keys.</p>
      </section>`;
  }
  const rows = token.top.map((other) => ({
    ...other,
    chosen: other.text === token.text && other.logprob === token.logprob,
  }));
  const outside = !rows.some(({ chosen }) => chosen);
  return html`
    <section class="inspector" aria-labelledby="inspector">
      <h3 id="inspector">
        Token ${at + 1}${token.id !== undefined && html` <span class="note">id ${token.id}</span>`}
      </h3>
      <dl class="facts">
        <div><dt>Text</dt><dd class="code">${quoted(token)}</dd></div>
        <div><dt>Probability</dt><dd>${percent(probability(token))}</dd></div>
        <div><dt>Logprob</dt><dd>${logprob(token.logprob)}</dd></div>
        <div><dt>Its float32</dt><dd>${floatBits(token.logprob)}</dd></div>
      </dl>
      ${
        rows.length > 0 &&
        html`
        <table class="tops">
          <caption class="sr">The most likely tokens at this place</caption>
          <thead>
            <tr><th scope="col">Most likely here</th><th scope="col">Probability</th><th scope="col">Logprob</th></tr>
          </thead>
          <tbody>
            ${rows.map((other, rank) => html`<${Top} key=${rank} token=${other} chosen=${other.chosen} />`)}
          </tbody>
        </table>
        ${outside && html`<p class="note">The token drawn is not among these ${rows.length}.</p>`}`
      }
    </section>`;
}

function Top({ token, chosen }) {
  const share = probability(token) ?? 0;
  return html`
    <tr class=${chosen ? "chosen" : ""}>
      <th scope="row">${quoted(token)}${chosen && html` <span class="tag">drawn</span>`}</th>
      <td>
        <svg class="share" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
          <rect width=${share * 100} height="6" />
        </svg>
        ${percent(share)}
      </td>
      <td>${logprob(token.logprob)}</td>
    </tr>`;
}
