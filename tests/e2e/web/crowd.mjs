// Other people's requests, so that nobody's answer is computed alone.
import assert from "node:assert/strict";

/** `size` clients of the server at `url` that ask one thing after another, until the function returned is called. */
export function crowd(url, size) {
  let going = true;
  const one = async (number) => {
    for (let turn = 0; going; ++turn) {
      const prompt = `Story ${number}.${turn}: once upon a time `.repeat(1 + (number % 3) * 3);
      const body = JSON.stringify({ prompt, max_tokens: 8 + number, temperature: 1, seed: turn });
      const headers = { "Content-Type": "application/json" };
      const response = await fetch(`${url}/v1/completions`, { method: "POST", headers, body });
      const text = await response.text();
      assert.equal(response.status, 200, text);
    }
  };
  const all = Array.from({ length: size }, (_, number) => one(number));
  return async () => {
    going = false;
    await Promise.all(all);
  };
}
