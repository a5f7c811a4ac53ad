// What the server says of a text, as where the user stands: the command, its GPUs and release, the runs of a log.
import {drawControls} from "./controls.js";
import {$} from "./dom.js";
import {fillForm} from "./forms.js";
import {place} from "./place.js";
import {drawReleases} from "./releases.js";

// Returns the answer that came with it, where it is that of the view.
export function takeReading(reading) {
  Object.assign(place, {applied: [], runs: [], tabs: [], at: 0, command: "", model: "", words: "", moved: {}});
  $("levers").replaceChildren();
  if (reading.kind === "explain") { takeRuns(reading); return null; }
  if (reading.kind === "question") { takeQuestion(reading); return null; }
  const own = reading.kind === "inspect" ? "inspect" : "plan";
  place.view ||= own;
  if (reading.kind === "inspect") takeModel(reading);
  else takeDeployments(reading);
  return place.view === own ? reading : null;
}

function takeDeployments(answer) {
  place.tabs = answer.deployments.map(one => ({...one, name: one.name && answer.deployments.length > 1 ? one.name : one.model}));
  place.at = answer.at;
  if (answer.asks) Object.assign(place, {command: answer.command, engine: answer.request, understood: answer.understood});
  else takePlan(answer);
}

function takeRuns(answer) {
  place.runs = answer.runs;
  place.run = answer.at;
  place.view ||= "explain";
  takeRun();
}

export function takeRun() {
  const run = place.runs[place.run];
  Object.assign(place, {command: run.command, model: run.command ? "" : run.model, engine: run.request, understood: run.understood});
  if (run.own_gpu && place.chosen) Object.assign(place, {mine: place.gpu, chosen: false}); // the log is of another card
  if (run.own_gpu || run.gpu && !place.chosen) place.gpu = run.gpu;
  if (run.releases.length) drawReleases(run.releases, {name: run.request.split("==")[0], version: run.request.split("==")[1] ?? ""});
}

function takeModel(answer) {
  Object.assign(place, {model: answer.model, engine: "", understood: answer.understood});
}

// A question in words: which command answers it, with what.
function takeQuestion({view, model, gpu, engine, fields, understood}) {
  Object.assign(place, {view, model, words: place.text.trim(), understood, command: "", engine});
  if (gpu) Object.assign(place, {gpu, chosen: false});
  place.forms[view] = fields;
  fillForm(view, true);
}

// What a plan says about where we are: the command as the server writes it, its GPUs and release, its controls.
export function takePlan(answer) {
  Object.assign(place, {command: answer.command, model: "", engine: answer.request, understood: answer.understood});
  if (answer.gpu) place.gpu = answer.gpu;
  if (place.tabs[place.at]) Object.assign(place.tabs[place.at], {command: answer.command, request: answer.request, gpu: answer.gpu, outcome: answer.verdict.outcome});
  drawReleases(answer.releases, answer.engine);
  drawControls(answer.controls);
  $("cache").parentElement.hidden = !answer.compiles;
  $("build").hidden = !place.own && answer.verdict.refusal !== "card";
}
