// node screenshots.mjs URL: makes the pictures of docs/page.md, of a server at URL under a small load (a minute or two).
import { fileURLToPath } from "node:url";
import { launch, open, replay, send, tokens, verdict } from "./browser.mjs";
import { crowd } from "./crowd.mjs";

const [url] = process.argv.slice(2);
const MINUTES = 1.2;
const CLIENTS = 3;
const folder = fileURLToPath(new URL("../../../docs/images/", import.meta.url));
const save = (page, name) => page.screenshot({ path: `${folder}page-${name}.png`, fullPage: true });

async function playground(browser, name, options) {
  const { page, finish } = await open(browser, url, { hash: "#/playground", height: 760, ...options });
  await page.getByLabel("Max tokens").fill("60");
  await page.getByLabel("Seed").fill("7");
  await send(page);
  await page.getByRole("heading", { name: "Replay" }).waitFor();
  await replay(page);
  await verdict(page).waitFor();
  await tokens(page).nth(6).focus();
  await save(page, name);
  await finish();
}

const browser = await launch();
let stop = crowd(url, CLIENTS);
const { page, finish } = await open(browser, url);
await page.getByRole("radio", { name: "1 min" }).check();
await page.waitForTimeout((MINUTES / 2) * 60_000);
await stop();
stop = crowd(url, 2 * CLIENTS);
await page.waitForTimeout((MINUTES / 2) * 60_000);
await save(page, "overview-light");
await stop();
await finish();
await playground(browser, "playground-light", {});
await playground(browser, "playground-dark", { scheme: "dark" });
await playground(browser, "playground-narrow", { width: 360 });
await browser.close();
