// One chart over time, drawn by uPlot; its title, legend and values are HTML, so that everyone can read them.
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { clock, NONE } from "./format.js";
import { html } from "./html.js";

const HEIGHT = 132;
const DASHES = [[], [7, 3], [2, 3]]; // the lines differ without colour too
const CURSORS = "eadem";

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function options({ series, ticks, top }, width, onCursor) {
  const axis = { stroke: colour("--muted"), font: `11px ${colour("--sans")}`, ticks: { show: false } };
  const grid = { stroke: colour("--line"), width: 1 };
  return {
    width,
    height: HEIGHT,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 5 }, drag: { x: false, y: false }, sync: { key: CURSORS } },
    scales: { x: { time: true }, y: { range: (_, low, high) => [0, top ?? Math.max(high ?? 0, 1e-9) * 1.15] } },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 22,
        space: 56,
        incrs: [10, 30, 60, 120, 300],
        values: (_, times, __, ___, step) => times.map((time) => clock(time, step)),
      },
      { ...axis, grid, size: 56, gap: 6, space: 30, values: (_, values) => values.map(ticks) },
    ],
    series: [
      {},
      ...series.map(({ label }, at) => ({
        label,
        stroke: colour(`--series-${at + 1}`),
        width: at === 0 ? 1.75 : 1.5,
        dash: DASHES[at],
        points: { show: false },
      })),
    ],
    hooks: { setCursor: [(plot) => onCursor(plot.cursor.idx ?? null)] },
  };
}

/** Draws again when the colours change: with the system's theme. */
function useTheme() {
  const [theme, setTheme] = useState(0);
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const change = () => setTheme((count) => count + 1);
    dark.addEventListener("change", change);
    return () => dark.removeEventListener("change", change);
  }, []);
  return theme;
}

/**
 * series: [{ key, label }], fields of the points. format, ticks: of a value, of those at the axis. top: the upper end
 * of the scale, where it is fixed.
 */
export function Chart({ title, note, series, points, span, format, ticks, top }) {
  const box = useRef(null);
  const plot = useRef(null);
  const [cursor, setCursor] = useState(null);
  const theme = useTheme();

  useEffect(() => {
    const width = () => Math.max(box.current.clientWidth, 120);
    plot.current = new uPlot(
      options({ series, ticks, top }, width(), setCursor),
      [[], ...series.map(() => [])],
      box.current,
    );
    const resize = new ResizeObserver(() => plot.current?.setSize({ width: width(), height: HEIGHT }));
    resize.observe(box.current);
    return () => {
      resize.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, [theme]);

  const last = points[points.length - 1];
  const from = last ? last.time - span : 0;
  const shown = points.filter(({ time }) => time >= from);
  useEffect(() => {
    if (!last) return;
    plot.current.setData(
      [shown.map(({ time }) => time), ...series.map(({ key }) => shown.map((point) => point[key] ?? null))],
      false,
    );
    plot.current.setScale("x", { min: from, max: last.time });
  }, [last, span, theme]);

  const at = (cursor !== null && shown[cursor]) || last;
  const values = series.map(({ key, label }) => ({ label, text: at ? format(at[key]) : NONE }));
  const now = series.map(({ key, label }) => `${label} ${last ? format(last[key]) : "unknown"}`).join(", ");
  return html`
    <section class="panel chart" aria-label=${title}>
      <h3>${title}${note && html`<span class="note">${note}</span>`}</h3>
      <dl class="legend">
        ${values.map(
          ({ label, text }, index) => html`
          <div key=${label}>
            <dt>
              <svg class="key key-${index + 1}" viewBox="0 0 18 4" aria-hidden="true"><path d="M0 2h18" /></svg>
              ${label}
            </dt>
            <dd>${text}</dd>
          </div>`,
        )}
      </dl>
      <div ref=${box} class="plot" role="img"
        aria-label=${`${title}, the last ${Math.round(span / 60)} minutes. Now: ${now}`}></div>
    </section>`;
}
