// The page: a box, views of what is in it, and where the user stands.
import {cancel} from "./ask.js";
import {type, wireBox} from "./box.js";
import {drawCharts} from "./charts.js";
import {wireControls} from "./controls.js";
import {$, tag} from "./dom.js";
import {fillForm, formOf} from "./forms.js";
import {keep, kept, resume} from "./kept.js";
import {place, recall, step} from "./place.js";
import {takeRun} from "./readings.js";
import {drawReleases} from "./releases.js";
import {save} from "./save.js";
import {wireShare} from "./share.js";
import {wireTables} from "./tables.js";
import {wireTabs} from "./tabs.js";
import {wireTheme} from "./theme.js";
import {wireTips} from "./tips.js";
import {settle} from "./turn.js";
import {shown} from "./view.js";
import {VIEWS} from "./words.js";

function read(text, file, name) {
  keep(place.text, place.file ? null : place.text); // what Back returns to is what was asked there
  step();
  Object.assign(place, {text, file, name, unread: true, view: "", stage: "", words: "", command: "", model: "", understood: [], runs: [], tabs: [], applied: [], moved: {},
    fixed: false, engine: ""});
  if (place.mine) Object.assign(place, {gpu: place.mine, chosen: true, mine: ""});
  if (!place.chosen) place.gpu = "";
  place.earlier = place.chosen;
  settle();
}

// A change of where we are: it is asked again with it, whatever is on its way.
function change(fields) {
  Object.assign(place, fields);
  if ("gpu" in fields && (place.runs.length || place.words)) place.unread = true;
  settle();
}

function chooseGpu(gpu) { change({gpu, chosen: Boolean(gpu), earlier: false, mine: ""}); }

let timer = 0;
// A control was moved: the plan follows, and so does the view that is open.
function move(field, value) {
  place.moved[field] = value;
  clearTimeout(timer);
  timer = setTimeout(settle, 60);
}

// A command of an answer: a remedy, a row of a table, a point of a chart.
function take({command, label, gpu, request}) {
  step();
  const before = {command: place.command, gpu: place.gpu, engine: place.engine, label: label ?? ""};
  if (label && place.command) place.applied.push(before);
  if (gpu) Object.assign(place, {gpu, chosen: true});
  if (request !== undefined) place.engine = request;
  else if (before.command && before.command.split(" ")[0] !== command.split(" ")[0]) place.engine = "";
  if (!place.text && !place.file) { type(command); place.text = command; }
  Object.assign(place, {command, model: "", words: "", moved: {}, unread: false, understood: []});
  $("levers").replaceChildren();
  if (!(place.view === "what_if" && label)) place.view = "plan";
  settle();
  scrollTo({top: 0});
}

function undo(index) {
  step();
  const {command, gpu, engine} = place.applied[index];
  place.applied.length = index;
  $("levers").replaceChildren();
  Object.assign(place, {command, gpu, engine, moved: {}, view: place.view === "what_if" ? "what_if" : "plan"});
  settle();
}

function chooseTab(index) {
  step();
  if (place.view === "explain") { place.run = index; takeRun(); settle(); return; }
  place.at = index;
  const one = place.tabs[index];
  $("levers").replaceChildren();
  Object.assign(place, {command: one.command ?? "", engine: one.request ?? "", applied: [], moved: {}, understood: []});
  if (one.gpu) place.gpu = one.gpu;
  settle();
}

function clickInView(event) {
  const one = event.target.closest("[data-copy], [data-command], [data-gpu], [data-box], button.answer, button.again");
  if (!one) return;
  if (one.dataset.copy) copy(one, one.dataset.copy);
  else if (one.dataset.command) take(one.dataset);
  else if (one.dataset.gpu) { step(); chooseGpu(one.dataset.gpu); }
  else if (one.dataset.box) { type(one.dataset.box); read(one.dataset.box, null, ""); }
  else if (one.matches(".answer")) { step(); Object.assign(place, {stage: one.dataset.stage, unread: true}); settle(); }
  else settle(true);
}

// The moment of the start that was chosen: its row stands out, and a sentence says what is on the GPU then.
function scrub(slider) {
  const part = slider.closest(".part"), rows = part.querySelectorAll(".timeline li"), row = rows[slider.value];
  for (const other of rows) other.classList.toggle("now", other === row);
  part.querySelector("output").textContent = row.dataset.moment;
}

function wire() {
  $("text").dataset.hint = $("text").placeholder;
  wireBox(read);
  wireControls(move);
  wireTabs($("views"), tab => { step(); change({view: tab.dataset.view}); });
  wireTabs($("tabs"), tab => chooseTab(Number(tab.dataset.index)));
  wireTables($("view"));
  wireTips($("view"));
  wireTheme($("theme"), () => drawCharts($("view")));
  $("gpu").addEventListener("change", () => { const gpu = $("gpu").value.trim(); $("gpu").dataset.shown = $("gpu").value; if (gpu !== place.gpu) chooseGpu(gpu); });
  $("release").addEventListener("change", () => change({engine: $("release").value, fixed: true}));
  $("cache").addEventListener("change", () => change({cache: $("cache").value}));
  $("own_build").addEventListener("change", () => change({own: $("own_build").checked}));
  $("cancel").addEventListener("click", cancel);
  $("print").addEventListener("click", () => print());
  $("save").addEventListener("click", () => save(shown.html, `oomph ${place.view} ${place.tabs[place.at]?.model ?? place.model ?? ""}`.trim()));
  $("copy").addEventListener("click", () => copy($("copy"), place.command));
  wireShare(copy);
  $("edit").addEventListener("click", () => { type(place.command); $("text").focus(); });
  for (const form of document.querySelectorAll("[data-form]")) {
    form.addEventListener("submit", event => { event.preventDefault(); settle(true); });
    form.addEventListener("change", () => settle());
  }
  $("applied").addEventListener("click", event => { const one = event.target.closest("[data-undo]"); if (one) undo(Number(one.dataset.undo)); });
  $("view").addEventListener("click", clickInView);
  $("view").addEventListener("input", event => { if (event.target.closest(".scrub")) scrub(event.target); });
  $("view").addEventListener("keydown", event => {
    const point = event.target.closest?.(".point");
    if (point && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); take(point.dataset); }
  });
  window.addEventListener("popstate", start);
}

async function copy(button, text) {
  const words = button.textContent;
  await navigator.clipboard.writeText(text);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = words; }, 1200);
}

// From the address, and from what this tab has kept of the user's own text.
function start() {
  recall();
  const own = kept();
  place.text = own ? own.text ?? "" : place.words || place.command || place.model;
  $("text").value = own ? own.box : place.text;
  $("cache").value = place.cache;
  $("own_build").checked = place.own;
  $("build").hidden = !place.own;
  $("levers").replaceChildren();
  if (!VIEWS.includes(place.view)) place.view = "";
  for (const view of Object.keys(place.forms)) fillForm(view);
  place.unread = Boolean(place.text) && (Boolean(own) && place.view === "explain" || !place.command && !place.model);
  settle();
}

async function offer() {
  const known = await (await fetch("/api/catalog")).json();
  const options = list => list.map(value => tag("option", {value}));
  $("gpus").replaceChildren(...options(known.gpus));
  // More than a thousand names: they are suggested once the field that they belong to is entered.
  formOf("diff").elements.model.addEventListener("focus", () => $("models").replaceChildren(...options(known.models)), {once: true});
  if (!$("release").options.length) drawReleases(known.releases, {name: known.engines[0].name, version: known.releases[0]});
  place.live = known.live;
  document.documentElement.dataset.ready = "1";
  if (place.live && (place.text || place.command) && !place.gpu) settle();
}

wire();
$("controls").open = matchMedia("(min-width:1080px)").matches;
resume();
start();
offer();
