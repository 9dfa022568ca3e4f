// The request form of the playground: fields as texts while they are typed, checked when they are sent.
import { html } from "./html.js";

export const START = {
  chat: true,
  model: "",
  system: "",
  prompt: "Name three rivers and the seas they flow into.",
  temperature: "0.7",
  topP: "0.95",
  maxTokens: "128",
  seed: "",
  alternatives: "5",
  schema: "",
};

const MOST_SEED = Number.MAX_SAFE_INTEGER;

function inRange(text, low, high, whole) {
  const value = Number(text);
  const good = text.trim() !== "" && Number.isFinite(value) && value >= low && value <= high;
  return good && (!whole || Number.isInteger(value)) ? value : null;
}

/** The values of a form, and what is wrong with them by field name. */
export function check(form) {
  const errors = {};
  const take = (field, low, high, whole, message) => {
    const value = inRange(form[field], low, high, whole);
    if (value === null) errors[field] = message;
    return value;
  };
  const values = {
    chat: form.chat,
    model: form.model,
    system: form.system,
    prompt: form.prompt,
    temperature: take("temperature", 0, 100, false, "A number from 0; 0 is greedy."),
    topP: take("topP", 1e-6, 1, false, "A number above 0, at most 1."),
    maxTokens: take("maxTokens", 1, 2147483647, true, "A whole number from 1."),
    seed:
      form.seed.trim() === ""
        ? null
        : take("seed", 0, MOST_SEED, true, `A whole number from 0 to ${MOST_SEED}, or nothing.`),
    alternatives: take("alternatives", 0, 20, true, "A whole number from 0 to 20."),
    schema: null,
  };
  if (form.prompt === "") errors.prompt = "There is nothing to answer.";
  if (form.schema.trim() !== "") {
    try {
      values.schema = JSON.parse(form.schema);
    } catch (error) {
      errors.schema = `This is no JSON: ${error.message}`;
    }
  }
  return { values, errors };
}

function Field({ name, label, hint, errors, children }) {
  const problem = errors[name];
  return html`
    <div class="field field-${name}">
      <label for=${`f-${name}`}>${label}${hint && html` <span class="note">${hint}</span>`}</label>
      ${children}
      ${problem && html`<p class="wrong" id=${`e-${name}`}>${problem}</p>`}
    </div>`;
}

export function Form({ form, errors, models, busy, onChange, onSend, onCancel }) {
  const change = (name) => (event) => onChange({ ...form, [name]: event.target.value });
  const common = (name) => ({
    id: `f-${name}`,
    name,
    value: form[name],
    onInput: change(name),
    "aria-invalid": errors[name] ? "true" : undefined,
    "aria-describedby": errors[name] ? `e-${name}` : undefined,
  });
  const small = (name, label, hint, more = {}) => html`
    <${Field} name=${name} label=${label} hint=${hint} errors=${errors}>
      <input ...${common(name)} inputmode="decimal" autocomplete="off" ...${more} />
    </${Field}>`;
  const submit = (event) => {
    event.preventDefault();
    if (!busy) onSend();
  };
  const keys = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
  };
  return html`
    <form class="panel ask" aria-labelledby="ask" onSubmit=${submit} onKeyDown=${keys} noValidate>
      <div class="row">
        <h2 id="ask">Request</h2>
        <fieldset class="segments">
          <legend class="sr">Kind of request</legend>
          ${[
            [true, "Chat"],
            [false, "Completion"],
          ].map(
            ([chat, label]) => html`
            <label key=${label}><input type="radio" name="kind" checked=${form.chat === chat}
              onChange=${() => onChange({ ...form, chat })} /><span>${label}</span></label>`,
          )}
        </fieldset>
      </div>
      ${
        models.length > 1 &&
        html`
        <${Field} name="model" label="Model" errors=${errors}>
          <select ...${common("model")}>
            ${models.map((id) => html`<option key=${id} value=${id}>${id}</option>`)}
          </select>
        </${Field}>`
      }
      ${
        form.chat &&
        html`
        <${Field} name="system" label="System message" hint="optional" errors=${errors}>
          <textarea ...${common("system")} rows="2"></textarea>
        </${Field}>`
      }
      <${Field} name="prompt" label=${form.chat ? "Message" : "Prompt"} errors=${errors}>
        <textarea ...${common("prompt")} rows="5" required></textarea>
      </${Field}>
      <div class="numbers">
        ${small("temperature", "Temperature")}
        ${small("topP", "top_p")}
        ${small("maxTokens", "Max tokens", "", { inputmode: "numeric" })}
        ${small("alternatives", "Alternatives", "", { inputmode: "numeric" })}
        ${small("seed", "Seed", "empty: the server draws one", { inputmode: "numeric", placeholder: "drawn" })}
      </div>
      <details class="schema" open=${Boolean(errors.schema) || undefined}>
        <summary>JSON schema of the answer${form.schema.trim() && " (in use)"}</summary>
        <${Field} name="schema" label="JSON schema" hint="empty: free text" errors=${errors}>
          <textarea ...${common("schema")} class="code" rows="6" spellcheck=${false}
            placeholder='{"type": "object", "properties": {…}}'></textarea>
        </${Field}>
      </details>
      <div class="actions">
        <button class="primary" aria-disabled=${busy} aria-keyshortcuts="Control+Enter">Send</button>
        <button type="button" disabled=${!busy} onClick=${onCancel}>Cancel</button>
        <span class="note">Ctrl + Enter sends</span>
      </div>
    </form>`;
}
