// From two readings of /v1/stats, what happened between them.

const RATE_WINDOW = 4; // seconds over which a rate is taken
const SHARE_WINDOW = 30; // seconds over which percentiles and shares are taken
const GAP = 10; // seconds without a reading, after which a line is broken
export const KEPT = 15 * 60; // seconds of history

/** A quantile of counts in buckets, by a straight line inside its bucket; null without counts. */
export function quantile(bounds, counts, q) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total <= 0) return null;
  let rest = q * total;
  for (let at = 0; at < counts.length; ++at) {
    if (rest <= counts[at] && counts[at] > 0) {
      if (at >= bounds.length) return bounds[bounds.length - 1];
      const low = at > 0 ? bounds[at - 1] : 0;
      return low + ((bounds[at] - low) * rest) / counts[at];
    }
    rest -= counts[at];
  }
  return bounds[bounds.length - 1];
}

function difference(histogram, before) {
  return histogram.counts.map((count, at) => count - (before?.counts[at] ?? 0));
}

function quantiles(now, then, name) {
  const histogram = now.histograms?.[name];
  if (!histogram) return [null, null, null];
  const counts = difference(histogram, then.histograms?.[name]);
  return [0.5, 0.9, 0.99].map((q) => quantile(histogram.le, counts, q));
}

const share = (part, whole) => (whole > 0 ? part / whole : null);

/** One point of every chart. `fast` and `slow` are earlier readings, for rates and for percentiles. */
export function point(now, fast, slow) {
  const time = Math.max(now.time - fast.time, 1e-3);
  const rate = (name) => (now === fast ? null : Math.max(0, (now[name] - fast[name]) / time));
  const grown = (name) => (now.engine?.[name] ?? 0) - (slow.engine?.[name] ?? 0);
  const [ttft50, ttft90, ttft99] = quantiles(now, slow, "time_to_first_token");
  const [itl50, itl90, itl99] = quantiles(now, slow, "inter_token");
  return {
    time: now.time,
    running: now.running,
    waiting: now.waiting,
    generated: rate("generation_tokens"),
    prompt: rate("prompt_tokens"),
    ttft50,
    ttft90,
    ttft99,
    itl50,
    itl90,
    itl99,
    kv: share(now.kv_blocks_used, now.kv_blocks),
    hits: share(now.cached_tokens - slow.cached_tokens, now.prompt_tokens - slow.prompt_tokens),
    preempted: now === slow ? null : grown("preemptions"),
    acceptance: share(grown("accepted_tokens"), grown("drafted_tokens")),
  };
}

/** Readings and the points made of them, of the last KEPT seconds. A restart of the server begins anew. */
export class History {
  constructor() {
    this.readings = [];
    this.points = [];
  }

  add(now) {
    const last = this.readings[this.readings.length - 1];
    if (last && now.time <= last.time) return;
    if (last && (now.uptime < last.uptime || now.requests < last.requests)) this.readings = [];
    if (last && now.time - last.time > GAP) this.points.push({ time: last.time + 1 });
    this.readings.push(now);
    while (now.time - this.readings[0].time > SHARE_WINDOW + 5) this.readings.shift();
    this.points.push(point(now, this.before(now.time - RATE_WINDOW), this.before(now.time - SHARE_WINDOW)));
    while (now.time - this.points[0].time > KEPT) this.points.shift();
  }

  /** The first reading that is not older than `time`; the one before the newest where they came slowly. */
  before(time) {
    const at = this.readings.findIndex((reading) => reading.time >= time);
    return this.readings[Math.max(0, Math.min(at, this.readings.length - 2))];
  }
}
