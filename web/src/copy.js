import { useState } from "preact/hooks";
import { html } from "./html.js";

const SHOWN = 1600; // ms

/** Puts a text on the clipboard; also where the page is not on https and the browser has no clipboard for it. */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "off-screen";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

export function CopyButton({ text, what }) {
  const [told, setTold] = useState("");
  const act = async (event) => {
    const button = event.currentTarget;
    setTold((await copy(text)) ? "Copied" : "Not copied");
    button.focus();
    setTimeout(() => setTold(""), SHOWN);
  };
  return html`
    <button type="button" class="quiet small" aria-label=${`Copy ${what}`} onClick=${act}>${told || "Copy"}</button>
    <span class="sr" role="status">${told && `${told}: ${what}`}</span>`;
}
