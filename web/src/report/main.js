// The page of a result: reads the document out of the page and shows it. What the page said before, for readers without
// scripts, stays where this fails.
import { render } from "preact";
import { html } from "../html.js";
import { Accept } from "./accept.js";
import { Cost } from "./cost.js";
import { Diff } from "./diff.js";
import { Gate } from "./gate.js";
import { NearTie } from "./near_tie.js";
import { Footer, Header } from "./parts.js";

const VIEWS = { accept: Accept, gate: Gate, cost: Cost, diff: Diff, "near-tie": NearTie };

const text = document.getElementById("document").textContent;
const result = JSON.parse(text);
const page = document.createElement("div");
render(
  html`
    <${Header} title=${document.title} result=${result} />
    <${VIEWS[result.kind]} result=${result} />
    <${Footer} text=${text} result=${result} />`,
  page,
);
document.getElementById("report").replaceChildren(...page.childNodes);

// On paper nothing can be opened, so everything is.
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const element of closed) element.open = true;
});
addEventListener("afterprint", () => {
  for (const element of closed) element.open = false;
});
