// The page before `eadem serve` with the real small model. EADEM_URL is its address.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, nextFloat, open, replay, send, tamper, tokens, until, verdict, violations } from "./browser.mjs";
import { crowd } from "./crowd.mjs";

const URL = process.env.EADEM_URL;
const PLAYGROUND = "#/playground";
let browser;

before(async () => {
  assert.ok(URL, "EADEM_URL is not set");
  browser = await launch();
});
after(() => browser?.close());

const stats = async () => (await fetch(`${URL}/v1/stats`)).json();

/** With a seed the answer is known: without one it may be drawn to end at once. */
async function ask(page, { prompt, seed, maxTokens = "12" } = {}) {
  await page.getByLabel("Max tokens").fill(maxTokens);
  if (seed) await page.getByLabel("Seed").fill(seed);
  if (prompt) await page.getByLabel(/^(Message|Prompt)$/).fill(prompt);
  await send(page);
  await page.getByRole("heading", { name: "Replay" }).waitFor();
}

test("the files come with the policy, a tag, and their types", async () => {
  for (const path of ["/", "/page.js", "/page.css", "/icon.svg", "/licences.txt"]) {
    const response = await fetch(URL + path);
    assert.equal(response.status, 200, path);
    assert.match(response.headers.get("content-security-policy"), /default-src 'none'; script-src 'self'/);
    assert.ok(!response.headers.get("content-security-policy").includes("unsafe"));
    const headers = { "If-None-Match": response.headers.get("etag") };
    assert.equal((await fetch(URL + path, { headers })).status, 304, path);
  }
});

for (const scheme of ["light", "dark"]) {
  test(`the overview shows the real server, and axe finds nothing: ${scheme}`, async () => {
    const { page, finish } = await open(browser, URL, { scheme });
    const { numerics, fingerprint, version } = await stats();
    const server = page.getByRole("region", { name: "Server" });
    for (const text of [numerics, version]) await server.getByText(text, { exact: true }).waitFor();
    const shown = await server.locator(".digest").innerText();
    assert.equal(shown.replace(/\s/g, ""), fingerprint);
    await page.getByRole("img", { name: /Tokens a second.*generated [\d,.]+/ }).waitFor();
    assert.deepEqual(await violations(page), []);
    await finish();
  });
}

test("an answer is the same bits again, alone and in a crowd, and the server says so too", async () => {
  const { page, finish } = await open(browser, URL, { hash: PLAYGROUND });
  await ask(page, { seed: "1" });
  const count = await tokens(page).count();
  assert.ok(count > 3);
  await replay(page);
  await verdict(page).waitFor();
  assert.match(
    await verdict(page).innerText(),
    new RegExp(`^= Equal: ${count} of ${count} tokens and their logprobs`),
  );

  const before = await stats();
  const stop = crowd(URL, 3);
  try {
    await until(async () => (await stats()).running >= 2);
    await replay(page);
    await verdict(page).waitFor();
    assert.match(await verdict(page).innerText(), new RegExp(`^= Equal: ${count} of ${count} tokens`));
    await page.getByRole("button", { name: "Verify on the server" }).click();
    await verdict(page).nth(1).waitFor();
    const sentence = new RegExp(`^= Equal: the server computed ${count} tokens and ${count} logprobs again`);
    assert.match(await verdict(page).first().innerText(), sentence);
  } finally {
    await stop();
  }
  const { engine } = await stats();
  assert.ok(engine.mixed_steps > before.engine.mixed_steps, "nobody shared a step with the replay");
  await tokens(page).nth(1).focus();
  assert.equal(await page.locator(".inspector tbody tr").count(), 5);
  assert.deepEqual(await violations(page), []);
  await finish();
});

test("an answer that was changed on the way by one bit is found", async () => {
  const { page, finish } = await open(browser, URL, { hash: PLAYGROUND });
  await tamper(page, (event, at) => {
    const token = event.choices?.[0]?.logprobs?.content?.[0];
    if (at === 4) token.logprob = nextFloat(token.logprob);
  });
  await ask(page, { seed: "1" });
  await replay(page);
  await verdict(page).waitFor();
  assert.match(await verdict(page).innerText(), /Different: from token 5 on \(another logprob\)/);
  await finish();
});

test("a completion, greedy and held to a schema, comes again", async () => {
  const { page, finish } = await open(browser, URL, { hash: PLAYGROUND });
  await page.getByRole("radio", { name: "Completion" }).check();
  await page.getByLabel("Temperature").fill("0");
  await page.getByText("JSON schema of the answer").click();
  const schema = {
    type: "object",
    properties: { river: { enum: ["Rhine", "Rhône"] } },
    required: ["river"],
    additionalProperties: false,
  };
  await page.locator("#f-schema").fill(JSON.stringify(schema));
  await ask(page, { prompt: "A river in JSON:", maxTokens: "48" });
  await page.getByRole("radio", { name: "Plain text" }).check();
  assert.match(JSON.parse(await page.locator("p.text").innerText()).river, /^Rh(ine|ône)$/);
  await replay(page);
  await page.getByText(/^= Equal/).waitFor();
  await finish();
});

test("cancelling frees the sequence at once", async () => {
  const { page, finish } = await open(browser, URL, { hash: PLAYGROUND });
  // What goes on for ever, so that the answer is not over before it is cancelled.
  await page.getByRole("radio", { name: "Completion" }).check();
  await page.getByLabel("Temperature").fill("0");
  await page.getByLabel("Max tokens").fill("8000");
  await page.getByLabel("Prompt", { exact: true }).fill("0 1 ".repeat(9));
  const { answers } = await stats();
  await send(page);
  await tokens(page).nth(5).waitFor();
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.getByText("cancelled here").waitFor();
  await until(async () => (await stats()).running === 0);
  await until(async () => (await stats()).answers.cancelled === answers.cancelled + 1);
  await finish();
});

test("what the real server refuses is shown in its words", async () => {
  const { page, finish } = await open(browser, URL, { hash: PLAYGROUND, ignore: /status of 400/ });
  await page.getByText("JSON schema of the answer").click();
  await page.locator("#f-schema").fill('{"type": "array", "uniqueItems": true}');
  await send(page);
  await page.locator(".answer").getByRole("alert").getByText("The server refuses this request").waitFor();
  await finish();
});
