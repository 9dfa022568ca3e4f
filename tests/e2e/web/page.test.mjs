// The page in headless Chromium, before a stand-in server that can be told to fail, to hurry and to wait.
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { launch, nextFloat, open, replay, send, tamper, tokens, until, verdict, violations } from "./browser.mjs";
import { startStub } from "./stub.mjs";

const PLAYGROUND = "#/playground";
let browser;
let stub;

before(async () => {
  browser = await launch();
  stub = await startStub();
});
after(async () => {
  await browser?.close();
  await stub?.close();
});
beforeEach(() =>
  Object.assign(stub, {
    pace: 0,
    hold: Infinity,
    refuse: null,
    key: "",
    state: "ready",
    requests: [],
    headers: [],
    cancelled: 0,
    listed: 0,
  }),
);

const finished = (page) => page.getByText("stop: it ended by itself").waitFor();

async function ask(page) {
  await send(page);
  await finished(page);
}

test("the overview tells what the server is and what it does", async () => {
  const { page, context, finish } = await open(browser, stub.origin);
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const server = page.getByRole("region", { name: "Server" });
  for (const text of ["smollm2-135m", "int8-v1", "8,192 positions"]) await server.getByText(text).waitFor();
  await page.getByRole("status").getByText("Ready").waitFor();
  assert.equal(await page.getByRole("img", { name: /the last 5 minutes. Now:/ }).count(), 6);
  assert.equal(await page.locator("canvas").count(), 6);
  // Two readings later there are rates, and a line on the canvas.
  await page.getByRole("img", { name: /Tokens a second.*generated [\d,]+/ }).waitFor();
  const inked = await page
    .locator("canvas")
    .first()
    .evaluate((canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return data.some((value) => value !== 0);
    });
  assert.ok(inked);
  await page.getByRole("button", { name: "Copy the fingerprint" }).click();
  await page.getByText("Copied: the fingerprint").waitFor({ state: "attached" });
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), stub.stats().fingerprint);
  await page.getByText("The charts in figures").click();
  assert.equal(await page.getByRole("row").count(), 1 + 14);
  await page.getByRole("radio", { name: "1 min" }).check();
  await page
    .getByRole("img", { name: /the last 1 minutes/ })
    .first()
    .waitFor();
  await finish();
});

test("the state follows the server", async () => {
  const { page, finish } = await open(browser, stub.origin, { ignore: /503/ });
  await page.getByText("Ready").waitFor();
  stub.state = "draining";
  await page.getByText("Draining: no new requests").waitFor();
  stub.refuse = () => ({ status: 503, message: "the model is loading", retryAfter: "2" });
  await page
    .getByRole("alert")
    .getByText(/The server takes no requests now.*the model is loading.*in 2 s/)
    .waitFor();
  stub.refuse = null;
  stub.state = "ready";
  await page.getByText("Ready").waitFor();
  assert.equal(await page.getByRole("alert").count(), 0);
  await finish();
});

for (const kind of ["Chat", "Completion"]) {
  test(`${kind}: an answer streams in, token by token, and tells its seed`, async () => {
    stub.hold = 5;
    const { page, finish } = await open(browser, stub.origin, { hash: PLAYGROUND });
    await page.getByRole("radio", { name: kind }).check();
    // The page has to know the model before it can name it: what it asks for later comes after that.
    await until(() => stub.listed > 0);
    await page.evaluate(() => fetch("/v1/models").then((response) => response.json()));
    await send(page);
    await tokens(page).nth(4).waitFor(); // before the sixth is even sent
    assert.equal(await tokens(page).count(), 5);
    stub.hold = Infinity;
    await finished(page);
    assert.equal(await tokens(page).count(), 25);
    const body = stub.requests[0];
    assert.equal("messages" in body, kind === "Chat");
    assert.deepEqual([body.temperature, body.top_p, body.max_tokens, body.stream], [0.7, 0.95, 128, true]);
    assert.equal(body.model, "smollm2-135m");
    for (const name of ["Seed", "Prompt hash", "Fingerprint"]) {
      const fact = page.locator(".answer .facts > div", { has: page.getByText(name, { exact: true }) }).locator("dd");
      assert.match(await fact.innerText(), name === "Seed" ? /^\d+$/ : /^[0-9a-f\s]{64,}/);
    }
    await page.getByRole("radio", { name: "Plain text" }).check();
    assert.match(
      await page.locator("p.text").innerText(),
      /^The Rhine flows into the North Sea, .* Sea,\nand the Rhône/,
    );
    await finish();
  });
}

test("each token tells its probability and alternatives to pointer, finger and keyboard", async () => {
  const { page, finish } = await open(browser, stub.origin, { hash: PLAYGROUND });
  await ask(page);
  const inspector = page.locator(".inspector");
  await inspector.getByText("Point at a token").waitFor();
  assert.match(await tokens(page).nth(1).getAttribute("aria-label"), /^“ Rhine”, (< )?[\d.]+ %, token 2 of 25$/);
  await tokens(page).nth(1).hover();
  await inspector.getByText("Token 2").waitFor();
  assert.equal(await inspector.getByRole("row").count(), 6);
  assert.equal(await inspector.locator("tr.chosen").count(), 1);
  assert.match(await inspector.innerText(), /0x[0-9a-f]{8}/);
  await tokens(page).nth(4).click();
  await inspector.getByText("Token 5").waitFor();
  await page.keyboard.press("Home");
  await tokens(page).nth(0).focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await inspector.getByText("Token 3").waitFor();
  assert.equal(await tokens(page).nth(2).getAttribute("aria-selected"), "true");
  await page.keyboard.press("End");
  await inspector.getByText("Token 25").waitFor();
  assert.equal(await page.locator(".tokens [tabindex='0']").count(), 1);
  await finish();
});

test("a replay sends the very request with the told seed, and finds the same bits", async () => {
  const { page, finish } = await open(browser, stub.origin, { hash: PLAYGROUND });
  await ask(page);
  await replay(page);
  await page.getByText("Equal: 25 of 25 tokens and their logprobs have the same bits.").first().waitFor();
  assert.match(await verdict(page).innerText(), /^= Equal/);
  const [first, second] = stub.requests;
  assert.equal(stub.requests.length, 2);
  assert.equal(first.seed, undefined);
  assert.equal(typeof second.seed, "number");
  assert.deepEqual({ ...first, seed: second.seed }, second);
  await finish();
});

const TAMPERED = [
  {
    name: "a logprob that is one bit off",
    say: /from token 8 on \(another logprob\)/,
    change: (event, at) => {
      if (at === 7)
        event.choices[0].logprobs.content[0].logprob = nextFloat(event.choices[0].logprobs.content[0].logprob);
    },
  },
  {
    name: "another token",
    say: /from token 3 on \(another token\)/,
    change: (event, at) => {
      if (at === 2) event.choices[0].logprobs.content[0].token = " flowed";
    },
  },
  {
    name: "another alternative",
    say: /from token 20 on \(other alternatives\)/,
    change: (event, at) => {
      if (at === 19) event.choices[0].logprobs.content[0].top_logprobs[4].logprob -= 1e-6;
    },
  },
  {
    name: "another fingerprint",
    say: /Different: fingerprint/,
    change: (event) => {
      event.system_fingerprint = "0".repeat(64);
    },
  },
  {
    name: "a token too few",
    say: /from token 25 on \(one answer is longer\)/,
    change: (event, at) => {
      if (at === 24) event.choices[0].logprobs.content = [];
    },
  },
];
for (const { name, say, change } of TAMPERED) {
  test(`a replay finds ${name}`, async () => {
    const { page, finish } = await open(browser, stub.origin, { hash: PLAYGROUND });
    await tamper(page, change);
    await ask(page);
    await replay(page);
    await verdict(page).waitFor();
    assert.match(await verdict(page).innerText(), say);
    assert.equal(await page.getByText(/^= Equal/).count(), 0);
    await finish();
  });
}

test("the server itself verifies an answer, and finds what was changed on the way", async () => {
  const { page, finish } = await open(browser, stub.origin, { hash: PLAYGROUND });
  const verify = page.getByRole("button", { name: "Verify on the server" });
  await ask(page);
  await verify.click();
  await page.getByText("Equal: the server computed 25 tokens and 25 logprobs again").first().waitFor();
  await tamper(page, TAMPERED[0].change, 0);
  await ask(page);
  assert.equal(await verdict(page).count(), 0);
  await verify.click();
  await page
    .getByText(/Different: token 8 has the logprob [-−.\de]+, and the server computed/)
    .first()
    .waitFor();
  await finish();
});

test("a cancelled answer ends at once, and its replay is compared as far as it went", async () => {
  stub.hold = 4;
  const { page, finish } = await open(browser, stub.origin, { hash: PLAYGROUND });
  await send(page);
  await tokens(page).nth(3).waitFor();
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.getByText("cancelled here").waitFor();
  await until(() => stub.cancelled > 0);
  assert.equal(stub.cancelled, 1);
  const count = await tokens(page).count();
  assert.equal(count, 4);
  stub.hold = Infinity;
  await replay(page);
  await page.getByText(`Equal: ${count} of ${count} tokens`).first().waitFor();
  await page.getByText("compared as far as that went").waitFor();
  await finish();
});

test("what the server refuses is said in words, with its own message", async () => {
  const { page, finish } = await open(browser, stub.origin, {
    hash: PLAYGROUND,
    ignore: /the server responded with a status/,
  });
  const cases = [
    [
      { status: 400, message: "max_tokens must be at most 8192" },
      /The server refuses this request.*max_tokens must be/,
    ],
    [
      { status: 429, message: "64 requests wait already", retryAfter: "5" },
      /The server is full.*64 requests wait.*in 5 s/,
    ],
    [{ status: 503, message: "the server is draining" }, /takes no requests now.*draining/],
    [{ status: 413, message: "the body is too large" }, /The request is too large/],
    [{ status: 500, message: "engine failed" }, /The server failed.*engine failed/],
  ];
  for (const [refusal, words] of cases) {
    stub.refuse = (path) => (path.includes("completions") ? refusal : null);
    await send(page);
    const alert = page.locator(".answer").getByRole("alert");
    await alert.getByText(new RegExp(refusal.message)).waitFor();
    assert.match((await alert.innerText()).replace(/\s+/g, " "), words);
    assert.equal(await page.getByRole("button", { name: /Replay/ }).count(), 0);
  }
  stub.refuse = null;
  await ask(page);
  assert.equal(await page.getByRole("alert").count(), 0);
  await finish();
});

test("an error inside a stream, and a stream that breaks off, leave what came and say so", async () => {
  const { page, finish } = await open(browser, stub.origin, { hash: PLAYGROUND });
  const event = {
    choices: [
      {
        delta: { content: "Half" },
        logprobs: { content: [{ token: "Half", logprob: -0.5, bytes: [72], top_logprobs: [] }] },
      },
    ],
  };
  const fulfil = (body) => (route) => route.fulfill({ status: 200, contentType: "text/event-stream", body });
  const start = `data: ${JSON.stringify(event)}\n\n`;
  await page.route("**/v1/chat/completions", fulfil(start));
  await send(page);
  await page
    .getByRole("alert")
    .getByText(/The stream ended before the answer did/)
    .waitFor();
  assert.equal(await tokens(page).count(), 1);
  await page.unroute("**/v1/chat/completions");
  await page.route(
    "**/v1/chat/completions",
    fulfil(`${start}data: {"error": {"message": "the engine stopped", "code": null}}\n\n`),
  );
  await send(page);
  await page
    .getByRole("alert")
    .getByText(/the engine stopped/)
    .waitFor();
  await finish();
});

test("the API key is asked for, is sent, and stays in this tab", async () => {
  stub.key = "a-secret";
  const { page, context, finish } = await open(browser, stub.origin, { hash: PLAYGROUND, ignore: /401/ });
  await page.getByText("API key needed").waitFor();
  await send(page);
  await page
    .getByRole("alert")
    .getByText(/An API key is needed/)
    .first()
    .waitFor();
  await page.getByRole("button", { name: "API key" }).click();
  await page.getByLabel("API key", { exact: true }).fill("a-secret");
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("Enter");
  await page.getByText("Ready").waitFor();
  await ask(page);
  assert.equal(stub.headers.at(-1).authorization, "Bearer a-secret");
  const kept = await page.evaluate(() => [
    Object.values(sessionStorage),
    Object.values(localStorage),
    document.cookie,
    location.href,
  ]);
  assert.deepEqual([kept[0], kept[1], kept[2]], [["a-secret"], [], ""]);
  assert.ok(!kept[3].includes("secret"));
  const other = await context.newPage();
  await other.goto(stub.origin);
  await other.getByText("API key needed").waitFor();
  await other.close();
  await page.getByRole("button", { name: "API key" }).click();
  await page.getByRole("button", { name: "Forget" }).click();
  await page.getByText("API key needed").waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  await finish();
});

test("a form that is wrong is not sent, and the first wrong field has the focus", async () => {
  const { page, finish } = await open(browser, stub.origin, { hash: PLAYGROUND });
  await page.getByLabel("Temperature").fill("hot");
  await page.getByLabel("Seed").fill("-1");
  await page.getByText("JSON schema of the answer").click();
  await page.locator("#f-schema").fill("{");
  await send(page);
  assert.equal(await page.locator("[aria-invalid=true]").count(), 3);
  await page.waitForFunction(() => document.activeElement.id === "f-temperature");
  assert.deepEqual(await violations(page), []);
  assert.equal(stub.requests.length, 0);
  await page.getByLabel("Temperature").fill("0");
  await page.getByLabel("Seed").fill("42");
  await page.locator("#f-schema").fill('{"type": "string"}');
  await ask(page);
  assert.deepEqual(stub.requests[0].response_format.json_schema.schema, { type: "string" });
  assert.equal(stub.requests[0].seed, 42);
  await finish();
});

test("everything can be done by the keyboard alone", async () => {
  const { page, finish } = await open(browser, stub.origin);
  await page.getByText("Ready").waitFor();
  const focus = () =>
    page.evaluate(
      () => document.activeElement.textContent.trim() || document.activeElement.name || document.activeElement.id,
    );
  const tabTo = async (wanted) => {
    const seen = [];
    for (let step = 0; step < 40; ++step) {
      await page.keyboard.press("Tab");
      const outline = await page.evaluate(() => {
        const element = document.activeElement;
        const shown = element.matches(".segments input") ? element.nextElementSibling : element;
        return getComputedStyle(shown).outlineStyle;
      });
      seen.push(await focus());
      assert.equal(outline, "solid", `no focus is seen on ${seen.at(-1)}`);
      if (seen.at(-1).match(wanted)) return;
    }
    assert.fail(`never came to ${wanted}: ${seen}`);
  };
  await page.keyboard.press("Tab");
  assert.equal(await focus(), "Skip to content");
  await tabTo(/^Playground$/);
  await page.keyboard.press("Enter");
  await tabTo(/^prompt$/);
  await page.keyboard.press("Control+A");
  await page.keyboard.type("Hello");
  await tabTo(/^Send$/);
  await page.keyboard.press("Enter");
  await finished(page);
  assert.equal(stub.requests[0].messages[0].content, "Hello");
  await tabTo(/^The$/);
  await page.keyboard.press("ArrowRight");
  await page.locator(".inspector").getByText("Token 2").waitFor();
  await tabTo(/^Replay with this seed$/);
  await page.keyboard.press("Enter");
  await verdict(page).waitFor();
  assert.match(await verdict(page).innerText(), /Equal/);
  await finish();
});

test("a screen reader is told of the beginning and the end, not of every token", async () => {
  stub.pace = 30;
  const { page, finish } = await open(browser, stub.origin, { hash: PLAYGROUND });
  await page.evaluate(() => {
    const region = [...document.querySelectorAll("[role=status]")].find((element) => element.tagName === "P");
    globalThis.told = [];
    new MutationObserver(() => globalThis.told.push(region.textContent)).observe(region, {
      characterData: true,
      childList: true,
      subtree: true,
    });
  });
  await ask(page);
  const told = await page.evaluate(() => [...new Set(globalThis.told)].filter(Boolean));
  assert.equal(told.length, 2, told.join(" | "));
  assert.match(told[0], /coming/);
  assert.match(told[1], /complete: 25 tokens. The Rhine/);
  await finish();
});

for (const scheme of ["light", "dark"]) {
  for (const width of [1280, 360]) {
    test(`axe finds nothing and nothing is cut off: ${scheme}, ${width} pixels wide`, async () => {
      const { page, finish } = await open(browser, stub.origin, { scheme, width });
      const checked = async () => {
        assert.deepEqual(await violations(page), []);
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
      };
      await page.getByRole("img", { name: /generated [\d,]+/ }).waitFor();
      await page.getByText("The charts in figures").click();
      await checked();
      await page.getByRole("link", { name: "Playground" }).click();
      await page.getByRole("button", { name: "Send" }).waitFor();
      await checked();
      await tamper(page, TAMPERED[0].change);
      await ask(page);
      await tokens(page).nth(9).hover();
      await page.getByText("The request as it was sent").click();
      await checked();
      await replay(page);
      await verdict(page).waitFor();
      assert.match(await verdict(page).innerText(), /Different/);
      await checked();
      await page.getByRole("radio", { name: "Plain text" }).check();
      await checked();
      await finish();
    });
  }
}

test("axe would find what is wrong", async () => {
  const { page, finish } = await open(browser, stub.origin);
  await page.getByText("Ready").waitFor();
  await page.evaluate(() => {
    const field = document.createElement("input");
    document.querySelector("main").append(field);
  });
  assert.match((await violations(page)).join(), /label/);
  await finish();
});

test("the policy is in force: no inline script runs, nothing is fetched from elsewhere", async () => {
  const { page, context } = await open(browser, stub.origin);
  const blocked = [];
  page.on("console", (message) => blocked.push(message.text()));
  const ran = await page.evaluate(async () => {
    const script = document.createElement("script");
    script.textContent = "globalThis.inline = true";
    document.body.append(script);
    const fetched = await fetch("http://localhost:9/").then(
      () => true,
      () => false,
    );
    return [globalThis.inline ?? false, fetched];
  });
  assert.deepEqual(ran, [false, false]);
  // What the console says comes on a way of its own.
  await until(() => blocked.filter((text) => /Content Security Policy/.test(text)).length >= 2);
  await context.close();
});
