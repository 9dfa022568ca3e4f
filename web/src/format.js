// Numbers and texts as the page shows them.

export const NONE = "–";

/** 0.0312 -> "31.2 ms"; seconds in, null where unknown. */
export function seconds(value) {
  if (value === null || value === undefined) return NONE;
  if (value < 0.0995) return `${(value * 1e3).toFixed(1)} ms`;
  if (value < 0.9995) return `${(value * 1e3).toFixed(0)} ms`;
  return value < 99.5 ? `${value.toFixed(2)} s` : `${value.toFixed(0)} s`;
}

/** 1234567 -> "1,234,567"; three significant digits below 100. */
export function number(value) {
  if (value === null || value === undefined) return NONE;
  if (Number.isInteger(value) || Math.abs(value) >= 100) return Math.round(value).toLocaleString("en-US");
  return value.toFixed(Math.abs(value) >= 10 ? 1 : 2);
}

/** A share of one -> "97.3 %". */
export function percent(share) {
  if (share === null || share === undefined || Number.isNaN(share)) return NONE;
  const value = share * 100;
  if (value > 0 && value < 0.01) return "< 0.01 %";
  return `${value.toFixed(value < 1 ? 2 : 1)} %`;
}

/** Seconds -> "2 d 03:14:05". */
export function duration(value) {
  if (value === null || value === undefined) return NONE;
  const whole = Math.floor(value);
  const two = (part) => String(part).padStart(2, "0");
  const clock = `${two(Math.floor(whole / 3600) % 24)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
  const days = Math.floor(whole / 86400);
  return days > 0 ? `${days} d ${clock}` : clock;
}

/** Time of day, of ticks `step` seconds apart. */
export function clock(time, step) {
  return new Date(time * 1000).toTimeString().slice(0, step < 60 ? 8 : 5);
}

/** Shorter forms, for the ticks of an axis. */
export const tick = {
  number: (value) => number(value),
  percent: (share) => `${Math.round(share * 100)} %`,
  seconds: (value) => (value < 1 ? `${Number((value * 1e3).toFixed(1))} ms` : `${Number(value.toFixed(2))} s`),
};

/** The bits of a float32, which a logprob is: equal bits, equal text. */
export function floatBits(value) {
  if (typeof value !== "number") return NONE;
  const view = new DataView(new ArrayBuffer(4));
  view.setFloat32(0, value);
  return `0x${view.getUint32(0).toString(16).padStart(8, "0")}`;
}

const MASKED = -9999; // what OpenAI's fields hold for a token that could not be drawn

/** The number of a logprob, or null for a token that could not be drawn. */
export function known(value) {
  return typeof value === "number" && value > MASKED ? value : null;
}

/** A logprob with as many digits as its float32 needs. */
export function logprob(value) {
  if (known(value) === null) return "masked";
  for (let digits = 1; digits < 9; ++digits) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === Math.fround(value)) return plain(text);
  }
  return plain(value.toPrecision(9));
}

function plain(text) {
  return text.replace("-", "−");
}

// How the server names a token that is no text: bytes that are half a character, or a special token.
const NAMED = /^(?:bytes:((?:\\x[0-9a-f]{2})+)|token_id:(\d+))$/;

/** What stands for a token without a text of its own; null for all others. */
export function stand(token) {
  const [, bytes, id] = NAMED.exec(token.text) ?? [];
  if (bytes) return bytes.slice(2).replaceAll("\\x", " ");
  if (id) return `special ${id}`;
  return token.text === "" ? "∅" : null;
}

/** A token's text in quotes, with what cannot be seen written out. */
export function quoted(token) {
  return stand(token) ?? `“${visible(token.text)}”`;
}

export function visible(text) {
  return text.replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/\r/g, "␍");
}

/** Groups of eight, so that a person can compare two digests. */
export function grouped(digest) {
  return digest.match(/.{1,8}/g) ?? [];
}
