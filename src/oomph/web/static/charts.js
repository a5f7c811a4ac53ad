// Charts need uPlot, which is fetched when the first of them is shown.
import {tag} from "./dom.js";
import {drawPlots} from "./plots.js";

let library = null;

export async function drawCharts(view) {
  if (!view.querySelector(".plot")) return;
  library ??= Promise.all([loaded(tag("script", {src: "/vendor/uplot.js"})), loaded(tag("link", {rel: "stylesheet", href: "/vendor/uplot.css"}))]);
  await library;
  drawPlots(view);
}

function loaded(node) { return new Promise(done => { node.onload = done; document.head.append(node); }); }
