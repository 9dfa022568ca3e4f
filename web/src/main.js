// The page: a header with the server's state, and two views. Which one shows is in the address (#/playground).
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { apiKey, call, explain, setApiKey } from "./api.js";
import { html } from "./html.js";
import { Overview } from "./overview.js";
import { Playground } from "./playground.js";
import { History } from "./stats.js";

const PERIOD = 1000; // ms between two readings
const PERIOD_AFTER_FAILURE = 3000;

const VIEWS = [
  { id: "overview", href: "#/", label: "Overview" },
  { id: "playground", href: "#/playground", label: "Playground" },
];

function viewOfAddress() {
  return location.hash.startsWith("#/playground") ? "playground" : "overview";
}

/** Reads /v1/stats again and again while the page can be seen. */
function useStats(key) {
  const history = useRef(new History());
  const [state, setState] = useState({ now: null, problem: null });
  useEffect(() => {
    let timer = null;
    let gone = false;
    const schedule = (wait) => {
      if (!gone && !document.hidden) timer = setTimeout(read, wait);
    };
    const read = async () => {
      timer = null;
      try {
        const now = await (await call("/v1/stats")).json();
        if (gone) return;
        history.current.add(now);
        setState({ now, problem: null });
        schedule(PERIOD);
      } catch (error) {
        if (gone) return;
        setState((old) => ({ now: old.now, problem: explain(error) }));
        schedule(PERIOD_AFTER_FAILURE);
      }
    };
    const seen = () => {
      clearTimeout(timer);
      schedule(0);
    };
    document.addEventListener("visibilitychange", seen);
    read();
    return () => {
      gone = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [key]);
  return { ...state, points: history.current.points };
}

const STATES = {
  ready: "Ready",
  loading: "Loading the model",
  draining: "Draining: no new requests",
  unreachable: "Not reachable",
  locked: "API key needed",
  waiting: "Connecting",
};

function stateOf({ now, problem }) {
  if (problem) return problem.status === 401 ? "locked" : "unreachable";
  return now ? now.state : "waiting";
}

function KeyPanel({ onChange, onClose }) {
  const field = useRef(null);
  useEffect(() => field.current.focus(), []);
  const use = (event) => {
    event.preventDefault();
    setApiKey(field.current.value.trim());
    onChange();
    onClose();
  };
  const forget = () => {
    setApiKey("");
    onChange();
    onClose();
  };
  return html`
    <form class="key-panel" id="key-panel" onSubmit=${use} onKeyDown=${(event) => event.key === "Escape" && onClose()}>
      <label for="api-key">API key</label>
      <input ref=${field} id="api-key" type="password" autocomplete="off" spellcheck=${false} defaultValue=${apiKey()}
        aria-describedby="api-key-note" />
      <button class="primary">Use</button>
      <button type="button" onClick=${forget}>Forget</button>
      <span id="api-key-note" class="note">Kept for this tab alone, and sent to this server alone.</span>
    </form>`;
}

function Header({ stats, view, onKey }) {
  const [open, setOpen] = useState(false);
  const button = useRef(null);
  const state = stateOf(stats);
  const close = () => {
    setOpen(false);
    button.current.focus();
  };
  return html`
    <header class="top">
      <div class="bar">
        <a class="brand" href="#/" aria-label="Eadem, overview"><span aria-hidden="true">≡</span> Eadem</a>
        <nav aria-label="Views">
          ${VIEWS.map(
            ({ id, href, label }) => html`
            <a key=${id} href=${href} aria-current=${view === id ? "page" : undefined}>${label}</a>`,
          )}
        </nav>
        ${stats.now && html`<div class="model"><span class="sr">Model</span> ${stats.now.model}</div>`}
        <div class="state state-${state}" role="status">
          <span class="lamp" aria-hidden="true"></span>${STATES[state] ?? state}
        </div>
        <button ref=${button} class="quiet" aria-expanded=${open} aria-controls=${open ? "key-panel" : undefined}
          onClick=${() => setOpen(!open)}>API key${apiKey() ? " ✓" : ""}</button>
      </div>
      ${open && html`<${KeyPanel} onChange=${onKey} onClose=${close} />`}
    </header>`;
}

function Page() {
  const [view, setView] = useState(viewOfAddress);
  const [key, setKey] = useState(apiKey);
  const stats = useStats(key);
  const main = useRef(null);
  useEffect(() => {
    const change = () => setView(viewOfAddress());
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  useEffect(() => {
    document.title = `${VIEWS.find(({ id }) => id === view).label} – Eadem`;
  }, [view]);
  const skip = (event) => {
    event.preventDefault();
    main.current.focus();
  };
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to content</a>
    <${Header} stats=${stats} view=${view} onKey=${() => setKey(apiKey())} />
    <main ref=${main} id="main" tabindex="-1">
      <div hidden=${view !== "overview"}><${Overview} stats=${stats} shown=${view === "overview"} /></div>
      <div hidden=${view !== "playground"}><${Playground} now=${stats.now} authorized=${key} /></div>
    </main>`;
}

render(html`<${Page} />`, document.getElementById("page"));
