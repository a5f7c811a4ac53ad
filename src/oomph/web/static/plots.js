// Charts from the data in their elements, with uPlot, which must be there. It draws on a canvas: colours are read first.
export function drawPlots(root) {
  for (const place of root.querySelectorAll(".plot[data-plot]")) draw(place, JSON.parse(place.dataset.plot));
}

function draw(place, data) {
  const colour = name => getComputedStyle(place).getPropertyValue("--" + name) && resolve(place, "--" + name);
  const soft = resolve(place, "--soft"), line = resolve(place, "--line");
  const axis = {stroke: soft, grid: {stroke: line, width: 1}, ticks: {stroke: line, width: 1}, font: "12px system-ui"};
  const side = (_, labels) => 18 + 7 * Math.max(2, ...(labels ?? []).map(text => String(text).length));
  const figure = (value, unit) => value === null || value === undefined ? "" : Number(value.toPrecision(4)).toLocaleString("en") + (unit ?? "");
  const top = Math.max(...data.series.map(s => s.top ?? Math.max(...s.ys, 0))) || 1;
  place.replaceChildren();
  const chart = new uPlot({
    width: Math.max(200, place.clientWidth), height: 190,
    scales: {x: {time: false}, y: {range: [0, top * 1.05]}},
    axes: [{...axis, size: 34, label: data.x, labelSize: 18, labelFont: axis.font}, {...axis, size: side, values: (_, ticks) => ticks.map(v => figure(v, data.series[0].unit))}],
    hooks: {ready: [() => setTimeout(rest)], draw: [chart => { if (data.mark != null) drawMark(chart, data.mark, resolve(place, "--fg")); }]},
    cursor: {points: {size: 7}, drag: {x: false, y: false}},
    series: [{label: data.x, value: (_, v) => figure(v, "")},
      ...data.series.map(s => ({label: s.label, stroke: colour(s.colour), width: 2, points: {show: s.ys.length < 20}, value: (_, v) => figure(v, s.unit)}))],
  }, [data.xs, ...data.series.map(s => s.ys)], place);
  const at = data.mark == null ? data.xs.length - 1 : data.xs.reduce((best, x, i) => Math.abs(x - data.mark) < Math.abs(data.xs[best] - data.mark) ? i : best, 0);
  const rest = () => chart.setLegend({idx: at}); // the legend has figures without a pointer too
  chart.over.addEventListener("mouseleave", () => setTimeout(rest));
  new ResizeObserver(() => { if (place.clientWidth > 100 && Math.abs(place.clientWidth - chart.width) > 2) chart.setSize({width: place.clientWidth, height: 190}); }).observe(place);
}

// Where the verdict stands.
function drawMark(chart, at, colour) {
  const x = chart.valToPos(at, "x", true), {top, height} = chart.bbox, ink = chart.ctx;
  ink.save();
  Object.assign(ink, {strokeStyle: colour, lineWidth: 2});
  ink.setLineDash([6, 4]);
  ink.beginPath();
  ink.moveTo(x, top);
  ink.lineTo(x, top + height);
  ink.stroke();
  ink.restore();
}

// light-dark() is a colour only once it is computed for an element.
function resolve(place, name) {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  place.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
