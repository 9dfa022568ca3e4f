// The page of a result: reads the document out of the page and shows it.
import { render } from "preact";
import { html } from "../html.js";

const result = JSON.parse(document.getElementById("document").textContent);
const place = document.getElementById("report");
place.textContent = "";
render(html`<h1>${document.title}</h1><p class="verdict ${result.verdict}">${result.summary}</p>`, place);
