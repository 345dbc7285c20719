// The style sheet and the script of a report page.
#include "runtime/report/report_page.hpp"

namespace railyard {

const std::string_view kPageStyle = R"css(
:root { color-scheme: light dark;
  --page: #f5f6f8; --card: #ffffff; --ink: #161a21; --mute: #667085; --line: #e3e6eb; --grid: #eef0f3;
  --blue: #2563eb; --orange: #e06c00; --green: #0f8a5f; --red: #cf2e2e; --violet: #7c4dd6; --teal: #14909a; }
@media (prefers-color-scheme: dark) { :root {
  --page: #0d1117; --card: #151b23; --ink: #e6e9ef; --mute: #8d96a5; --line: #29313c; --grid: #1f2731;
  --blue: #6ea8fe; --orange: #ffa24d; --green: #4cc38a; --red: #ff7b72; --violet: #b392f0; --teal: #5bc8d3; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 14px/1.45 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  font-variant-numeric: tabular-nums; }
main { max-width: 1220px; margin: 0 auto; padding: 28px 24px 64px; }
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 4px 14px; }
h1 { font-size: 26px; margin: 0; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { font-size: 13px; margin: 34px 0 10px; color: var(--mute); font-weight: 600; text-transform: uppercase; letter-spacing: .06em; }
.sub { color: var(--mute); width: 100%; overflow-wrap: anywhere; }
.pill { font-size: 12px; font-weight: 600; padding: 2px 10px; border-radius: 999px; border: 1px solid currentColor; transform: translateY(-3px); }
.good { color: var(--green); } .bad { color: var(--red); } .busy { color: var(--blue); } .idle { color: var(--mute); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; margin: 0; }
.note { padding: 10px 16px; margin: 14px 0; border-left: 4px solid var(--orange); white-space: pre-wrap; overflow-wrap: anywhere; }
.note.bad { color: inherit; border-left-color: var(--red); } .note.good { color: inherit; border-left-color: var(--green); }
.progress { height: 6px; border-radius: 3px; background: var(--line); margin: 18px 0 14px; overflow: hidden; }
.progress i { display: block; height: 100%; background: var(--blue); border-radius: 3px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(176px, 1fr)); gap: 12px; }
.tile { padding: 12px 16px; } .tile b { display: block; font-size: 21px; font-weight: 600; letter-spacing: -.01em; }
.tile span { color: var(--mute); font-size: 12px; } .tile small { color: var(--mute); font-size: 12px; font-weight: 400; letter-spacing: 0; white-space: nowrap; }
.charts { display: grid; grid-template-columns: 1fr 1fr; gap: 14px; } .charts .wide { grid-column: 1 / -1; }
.chart { padding: 12px 14px 8px; min-width: 0; } .charts .wide > .chart { height: 100%; }
figcaption { display: flex; flex-wrap: wrap; align-items: baseline; gap: 4px 10px; min-height: 24px; padding: 0 2px 6px; }
figcaption .unit { color: var(--mute); font-size: 12px; } .read, .legend { margin-left: auto; font-size: 12.5px; color: var(--mute); }
.read b { font-weight: 600; margin-left: 4px; } .read i { font-style: normal; margin-left: 12px; }
svg { display: block; width: 100%; height: auto; font-size: 11px; } svg text { fill: var(--mute); }
.grid { stroke: var(--grid); fill: none; } .base { stroke: var(--line); fill: none; } .mark { stroke: var(--mute); stroke-dasharray: 3 4; fill: none; opacity: .7; }
.unknown { stroke: var(--red); stroke-width: 2; fill: none; } .cross { stroke: var(--mute); fill: none; stroke-width: 1; pointer-events: none; }
.line { fill: none; stroke-width: 1.5; stroke-linejoin: round; stroke-linecap: round; }
path.line.plain { stroke: var(--blue); } path.line.train { stroke: var(--blue); stroke-width: 1; opacity: .38; }
path.line.smooth { stroke: var(--blue); stroke-width: 2; } path.line.valid { stroke: var(--orange); stroke-width: 1.75; }
.band { stroke: none; opacity: .16; fill: var(--blue); }
circle.valid { fill: var(--orange); } circle.slow { fill: var(--red); }
.t-train { color: var(--blue); } .t-smooth { color: var(--blue); } .t-plain { color: var(--blue); } .t-valid { color: var(--orange); } .t-slow { color: var(--red); }
.timeline .lane { fill: var(--grid); } .timeline text.n { fill: #fff; font-size: 10px; pointer-events: none; }
.f { fill: #3b76e0; background: #3b76e0; } .b { fill: #12805c; background: #12805c; } .bi { fill: #12805c; background: #12805c; }
.bw { fill: #b06a12; background: #b06a12; } .o { fill: #77808f; background: #77808f; }
.c1 { opacity: .8; } .c2 { opacity: .65; } .c3 { opacity: .5; }
.key { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin: 0 5px 0 12px; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; font-weight: 600; color: var(--mute); font-size: 12px; }
th, td { padding: 5px 12px; border-bottom: 1px solid var(--grid); white-space: nowrap; } tr:last-child td { border-bottom: 0; }
td.num, th.num { text-align: right; } .scroll { overflow: auto; max-height: 420px; } .scroll th { position: sticky; top: 0; background: var(--card); }
.groups { columns: 3; column-gap: 14px; } .groups .card { break-inside: avoid; margin-bottom: 14px; padding: 8px 0 4px; }
.groups h3 { margin: 2px 12px 4px; font-size: 13px; } .groups td { white-space: normal; overflow-wrap: anywhere; } .groups td:first-child { color: var(--mute); }
.nodes { padding: 14px 16px; display: grid; gap: 8px; overflow: auto; max-height: 460px; } .node { display: flex; gap: 5px; align-items: center; }
.node > b { flex: 0 0 130px; font-weight: 500; overflow: hidden; text-overflow: ellipsis; } .gpu { flex: 0 0 58px; padding: 3px 0; border-radius: 6px;
  text-align: center; font-size: 11px; color: #fff; line-height: 1.25; } .gpu b { font-weight: 600; }
details { margin-top: 14px; } summary { cursor: pointer; padding: 10px 16px; font-weight: 600; } pre { margin: 0; padding: 4px 16px 14px;
  overflow: auto; font: 12.5px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; }
footer { color: var(--mute); margin-top: 40px; font-size: 12px; overflow-wrap: anywhere; }
@media (max-width: 820px) { .charts { grid-template-columns: 1fr; } .groups { columns: 1; } main { padding: 18px 12px 48px; }
  .wide .chart, figure:has(> .timeline) { overflow-x: auto; } .wide svg, svg.timeline { min-width: 780px; } }
@media print { body { background: #fff; } .card { break-inside: avoid; } .scroll, .nodes { max-height: none; } }
)css";

// One pointer moves a line through all charts and shows each one's values at that step.
const std::string_view kPageScript = R"js(
(() => {
  const charts = JSON.parse(document.getElementById('data').textContent);
  const group = n => Math.round(n).toLocaleString('en-US');
  const show = {
    loss: v => v.toFixed(4), grouped: group, rate: v => v.toExponential(2).replace('e+', 'E').replace('e', 'E'),
    seconds: v => v >= 9.995 ? v.toFixed(1) + ' s' : v >= 0.0995 ? v.toFixed(2) + ' s' : (v * 1e3).toFixed(1) + ' ms',
    percent: v => (v * 100).toFixed(1) + ' %', number: v => Math.abs(v) >= 9.995 ? v.toFixed(1) : String(+v.toPrecision(3)) };
  const nearest = (list, x) => {
    let low = 0, high = list.length - 1;
    while (high - low > 1) { const mid = (low + high) >> 1; if (list[mid] > x) high = mid; else low = mid; }
    return x - list[low] <= list[high] - x ? low : high;
  };
  for (const c of charts) {
    const figure = document.getElementById(c.id);
    c.svg = figure.querySelector('svg'); c.read = figure.querySelector('.read'); c.cross = c.svg.querySelector('.cross');
  }
  const look = (step, crossed) => {
    for (const c of charts) {
      c.read.textContent = '';
      c.cross.setAttribute('d', '');
      const add = (tag, text, style) => { const e = document.createElement(tag); e.textContent = text; if (style) e.className = style; c.read.append(e); };
      let at = null;
      for (const s of c.series) {
        if (!s.x.length) continue;
        const i = nearest(s.x, step === null ? c.x1 : step);
        if (at === null) { at = s.x[i]; add('span', 'step ' + group(at)); }
        if (s.style === 'slow' && s.x[i] !== at) continue;
        if (s.y[i] !== null) { add('i', s.name, 't-' + s.style); add('b', show[c.format](s.y[i]), 't-' + s.style); }
      }
      if (crossed && at !== null) {
        const x = c.left + (at - c.x0) / (c.x1 - c.x0) * (c.right - c.left);
        c.cross.setAttribute('d', 'M' + x.toFixed(1) + ' ' + c.top + 'V' + c.bottom);
      }
    }
  };
  for (const c of charts) {
    c.svg.addEventListener('pointermove', e => {
      const box = c.svg.getBoundingClientRect(), x = (e.clientX - box.left) / box.width * c.w;
      look(Math.min(c.x1, Math.max(c.x0, c.x0 + (x - c.left) / (c.right - c.left) * (c.x1 - c.x0))), true);
    });
    c.svg.addEventListener('pointerleave', () => look(null, false));
  }
  look(null, false);
})();
)js";

}  // namespace railyard
