// What is on the screen: the answer in its view, and everything around it that follows from where the user stands.
import {fold, tellEdit} from "./box.js";
import {drawCharts} from "./charts.js";
import {$, parse, tag} from "./dom.js";
import {complain, showForm} from "./forms.js";
import {place, remember} from "./place.js";
import {drawRead} from "./read.js";
import {refusalView} from "./refusals.js";
import {drawTabs, select} from "./tabs.js";
import {takeTitles} from "./tips.js";
import {cancelledView, emptyView} from "./words.js";

const CONTROLLED = new Set(["plan", "what_if", "simulate"]);
export let shown = null; // the answer

// The answer before is no answer to what is asked now: it can be read, but nothing in it can be used.
export function drawStale() {
  complain(null);
  $("view").classList.add("stale");
  $("view").inert = true;
  $("levers").inert = place.unread;
  frame();
  remember(); // a reload asks the same
}

export function drawAnswer(answer) { draw(answer, parse(answer.html)); }

export function drawEmpty(view) { draw(null, [emptyView(view, !place.command)]); }

export function drawCancelled() { draw(null, [cancelledView()]); }

export function drawRefusal(refused) {
  $("levers").replaceChildren();
  draw(null, [refusalView(refused, place.text || place.command)]);
  complain(refused);
}

function draw(answer, nodes) {
  shown = answer;
  const view = $("view");
  view.replaceChildren(...nodes);
  takeTitles(view);
  view.classList.remove("stale");
  view.inert = $("levers").inert = false;
  tell(view);
  frame();
  remember();
  drawCharts(view);
}

// What is on the screen in one sentence: for a screen reader, and as the window's title.
function tell(view) {
  $("told").textContent = view.querySelector(".verdict .says, .heading, h1")?.textContent ?? "";
  document.title = `${view.querySelector(".verdict strong")?.textContent ?? "oomph"}: ${view.querySelector("h1")?.textContent ?? ""}`;
}

function frame() {
  const name = place.view || "plan", tab = $("view-" + name);
  select($("views"), tab);
  $("view").setAttribute("aria-labelledby", tab.id);
  showForm(name);
  const runs = name === "explain" && place.runs.length > 1;
  if (runs) drawTabs($("tabs"), place.runs.map(run => ({name: run.name, kind: run.failed ? "fails" : run.failed === null ? "close" : "fits"})), place.run);
  else drawTabs($("tabs"), name === "explain" ? [] : place.tabs.map(one => ({name: one.name, kind: one.error ? "error-tab" : one.outcome, title: one.error ?? one.model})), place.at);
  $("controls").hidden = !CONTROLLED.has(name) || !place.command || !$("levers").children.length;
  for (const id of ["save", "print", "share"]) $(id).hidden = !shown;
  $("applied").hidden = !place.applied.length;
  $("applied").replaceChildren("Applied: ", ...place.applied.map((one, index) =>
    tag("button", {type: "button", "data-undo": index, title: "Back to before this"}, tag("code", {}, one.label), " ✕")));
  drawRead();
  tellEdit();
  fold();
}
