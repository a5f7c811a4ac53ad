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
    axes: [{...axis, size: 34}, {...axis, size: side}],
    cursor: {points: {size: 7}, drag: {x: false, y: false}},
    series: [{label: data.x, value: (_, v) => figure(v, "")},
      ...data.series.map(s => ({label: s.label, stroke: colour(s.colour), width: 2, points: {show: s.ys.length < 20}, value: (_, v) => figure(v, s.unit)}))],
  }, [data.xs, ...data.series.map(s => s.ys)], place);
  new ResizeObserver(() => { if (place.clientWidth > 100 && Math.abs(place.clientWidth - chart.width) > 2) chart.setSize({width: place.clientWidth, height: 190}); }).observe(place);
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
