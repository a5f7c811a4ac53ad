// The page: a box, views of what is in it, and where the user stands.
import {ask, cancel} from "./ask.js";
import {setBox, wireBox} from "./box.js";
import {drawCharts} from "./charts.js";
import {drawControls} from "./controls.js";
import {$, parse, tag} from "./dom.js";
import {complain, fillForm, formOf, readForm, showForm} from "./forms.js";
import {place, recall, remember, step, subject} from "./place.js";
import {drawReleases} from "./releases.js";
import {save} from "./save.js";
import {wireTables} from "./tables.js";
import {drawTabs, select, wireTabs} from "./tabs.js";
import {wireTheme} from "./theme.js";
import {takeTitles, wireTips} from "./tips.js";
import {DOING, emptyView, noAnswer} from "./words.js";

const ALONE = new Set(["cards", "models"]); // need nothing in the box
const CONTROLLED = new Set(["plan", "what_if", "simulate"]);
const LARGEST = 200 * 2 ** 20; // bytes of a log that the server takes
const answers = new Map(); // the last answers by what was asked
let shown = null, timer = 0, sent = "", usual = ""; // usual: the GPUs where nothing else names them

async function read(body, name) {
  complain(null);
  $("kind").textContent = "";
  if (body.size > LARGEST) {
    complain({message: `${name} is larger than 200 MB. Type the path of a checkpoint instead, or cut the log: its first lines and its last ones say it all`, field: "text"});
    return;
  }
  sent = typeof body === "string" ? body : $("text").value;
  if (!place.chosen && usual) place.gpu = $("gpu").value = usual;
  const query = new URLSearchParams({name, gpu: place.gpu, chosen: place.chosen ? "1" : "0", engine: ""});
  const answer = await attempt(() => ask("/api/read?" + query, body, name ? `Reading ${name}` : "Reading"));
  if (!answer) return;
  step();
  Object.assign(place, {applied: [], runs: [], tabs: [], at: 0, command: "", model: "", engine: ""});
  if (answer.kind === "explain") takeRuns(answer, name);
  else if (answer.kind === "inspect") takeModel(answer, name);
  else takeDeployments(answer, name);
}

function takeDeployments(answer, name) {
  place.tabs = answer.deployments.map(one => ({...one, name: one.name && answer.deployments.length > 1 ? one.name : one.model}));
  place.at = answer.at;
  place.view = "plan";
  const many = place.tabs.length > 1 ? `${place.tabs.length} deployments` : `${/^[AEIO]/.test(answer.title) ? "an" : "a"} ${answer.title} command`;
  $("kind").textContent = name ? `${name}: ${many}` : `Read as ${many}`;
  takePlan(answer);
  draw(answer);
}

function takeRuns(answer, name) {
  place.runs = answer.runs;
  place.run = answer.at;
  place.view = "explain";
  const version = answer.engine.version ? ` ${answer.engine.version}` : "";
  $("kind").textContent = `${name || "Read as"}${name ? ":" : ""} a log${answer.engine.name ? ` of ${answer.runs[answer.at].title}${version}` : ""}` +
    (answer.runs.length > 1 ? ` with ${answer.runs.length} runs` : "");
  showRun();
}

function takeModel(answer, name) {
  place.model = answer.model;
  place.view = "inspect";
  $("kind").textContent = `${name ? name + ": " : "Read as "}a model`;
  if (answer.model) answers.set(key("inspect"), answer);
  draw(answer);
}

function showRun() {
  const run = place.runs[place.run];
  Object.assign(place, {command: run.command, model: run.command ? "" : run.model, engine: run.request});
  if (run.gpu && !place.chosen) place.gpu = $("gpu").value = run.gpu;
  setBox(run.command);
  if (run.releases.length) drawReleases(run.releases, {name: run.request.split("==")[0], version: run.request.split("==")[1] ?? ""});
  draw({html: run.html});
}

// What a plan says about where we are: the command as the server writes it, its GPUs and release, its controls.
function takePlan(answer) {
  Object.assign(place, {command: answer.command, model: "", engine: answer.request});
  if (answer.gpu && answer.gpu !== place.gpu) place.gpu = $("gpu").value = answer.gpu;
  if (place.tabs[place.at]) Object.assign(place.tabs[place.at], {command: answer.command, request: answer.request, gpu: answer.gpu, outcome: answer.verdict.outcome});
  const edited = document.activeElement === $("text") && $("text").value !== sent && $("text").value !== $("text").dataset.shown;
  if (!edited) setBox(answer.command);
  answers.set(key("plan"), answer);
  drawReleases(answer.releases, answer.engine);
  drawControls(answer.controls, move);
}

// A control was moved: the plan follows, and so does the view that is open.
function move(field, value) {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    const answer = await attempt(() => ask("/api/plan", {...subject(), set: {[field]: value}}, DOING.plan));
    if (!answer) return;
    takePlan(answer);
    if (place.view === "plan") draw(answer); else open(place.view);
  }, 60);
}

async function open(view, fresh = false) {
  place.view = view;
  showForm(view);
  complain(null);
  if (view === "explain") { if (place.runs.length) showRun(); else drawEmpty(view); return; }
  if (!place.command && !place.model && !ALONE.has(view)) { drawEmpty(view); return; }
  const body = {...subject(), ...(formOf(view) ? readForm(view) : {})}, asked = key(view);
  if (fresh) answers.delete(asked);
  if (view === "diff" && !Object.values(body.other).some(Boolean)) { drawEmpty(view); return; }
  const answer = answers.get(asked) ?? await attempt(() => ask("/api/" + view, body, DOING[view]));
  if (!answer || place.view !== view) return;
  answers.set(asked, answer);
  if (answers.size > 30) answers.delete(answers.keys().next().value);
  if (view === "plan") takePlan(answer);
  draw(answer);
}

function key(view) { return JSON.stringify([view, subject(), formOf(view) ? readForm(view) : 0]); }

async function attempt(work) {
  $("view").classList.add("stale");
  try {
    const answer = await work();
    if (!answer) $("view").classList.remove("stale");
    else complain(null);
    return answer;
  } catch (refused) {
    complain(refused);
    $("view").classList.remove("stale");
    $("view").replaceChildren(noAnswer());
    shown = null;
    $("levers").replaceChildren();
    frame();
    return null;
  }
}

function draw(answer) {
  shown = answer;
  const view = $("view");
  view.replaceChildren(...parse(answer.html));
  takeTitles(view);
  view.classList.remove("stale");
  tell(view);
  frame();
  drawCharts(view);
}

// What is on the screen in one sentence: for a screen reader, and as the window's title.
function tell(view) {
  const says = view.querySelector(".verdict .says, .heading")?.textContent ?? "";
  $("told").textContent = says;
  document.title = `${view.querySelector(".verdict strong")?.textContent ?? "oomph"}: ${view.querySelector("h1")?.textContent ?? ""}`;
}

function drawEmpty(view) {
  shown = null;
  $("view").replaceChildren(emptyView(view, !place.command));
  frame();
}

// Everything around the view that follows from where we are.
function frame() {
  const tab = $("view-" + place.view);
  select($("views"), tab);
  $("view").setAttribute("aria-labelledby", tab.id);
  showForm(place.view);
  const runs = place.view === "explain" && place.runs.length > 1;
  if (runs) drawTabs($("tabs"), place.runs.map(run => ({name: run.name, kind: run.failed ? "fails" : run.failed === null ? "close" : "fits"})), place.run);
  else drawTabs($("tabs"), place.view === "explain" ? [] : place.tabs.map(one => ({name: one.name, kind: one.error ? "error-tab" : one.outcome, title: one.error ?? one.model})), place.at);
  $("controls").hidden = !CONTROLLED.has(place.view) || !place.command || !$("levers").children.length;
  $("save").hidden = $("print").hidden = !shown;
  $("copy").hidden = !place.command;
  $("applied").hidden = !place.applied.length;
  $("applied").replaceChildren("Applied: ", ...place.applied.map((one, index) =>
    tag("button", {type: "button", "data-undo": index, title: "Back to before this"}, tag("code", {}, one.label), " ✕")));
  remember();
}

async function take(button) {
  const {command, label, gpu, request} = button.dataset;
  step();
  const before = {command: place.command, gpu: place.gpu, engine: place.engine, label: label ?? ""};
  if (label && place.command) place.applied.push(before);
  if (gpu) { place.gpu = $("gpu").value = gpu; place.chosen = true; }
  if (request !== undefined) place.engine = request;
  else if (before.command && before.command.split(" ")[0] !== command.split(" ")[0]) place.engine = "";
  Object.assign(place, {command, model: ""});
  const stay = place.view === "what_if" && label;
  await open("plan");
  if (stay && shown) open("what_if");
  scrollTo({top: 0});
}

function undo(index) {
  step();
  const {command, gpu, engine} = place.applied[index];
  place.applied.length = index;
  Object.assign(place, {command, gpu, engine});
  $("gpu").value = gpu;
  open(place.view === "what_if" ? "what_if" : "plan");
}

function wire() {
  wireBox(read);
  wireTabs($("views"), tab => { step(); open(tab.dataset.view); });
  wireTabs($("tabs"), tab => {
    const index = Number(tab.dataset.index);
    step();
    if (place.view === "explain") { place.run = index; showRun(); return; }
    place.at = index;
    const one = place.tabs[index];
    Object.assign(place, {command: one.command ?? "", engine: one.request ?? "", applied: []});
    if (one.gpu) place.gpu = $("gpu").value = one.gpu;
    if (one.error && !one.command) { complain({message: one.error, hint: one.hint, field: "text"}); drawEmpty("plan"); } else open(place.view);
  });
  wireTables($("view"));
  wireTips($("view"));
  wireTheme($("theme"), () => drawCharts($("view")));
  $("gpu").addEventListener("change", () => {
    const gpu = $("gpu").value.trim();
    if (gpu === place.gpu) return;
    Object.assign(place, {gpu, chosen: Boolean(gpu)});
    if (place.command || place.model) open(place.view);
  });
  $("release").addEventListener("change", () => { place.engine = $("release").value; open(place.view); });
  $("cache").addEventListener("change", () => { place.cache = $("cache").value; open(place.view); });
  $("cancel").addEventListener("click", cancel);
  $("print").addEventListener("click", () => print());
  $("save").addEventListener("click", () => save(shown.html, `oomph ${place.view} ${place.tabs[place.at]?.model ?? place.model ?? ""}`.trim()));
  $("copy").addEventListener("click", copy);
  $("levers").addEventListener("submit", event => event.preventDefault());
  for (const form of document.querySelectorAll("[data-form]")) form.addEventListener("submit", event => { event.preventDefault(); open(form.dataset.form, true); });
  $("applied").addEventListener("click", event => { const one = event.target.closest("[data-undo]"); if (one) undo(Number(one.dataset.undo)); });
  $("view").addEventListener("click", event => { const one = event.target.closest("[data-command]"); if (one) take(one); });
  $("view").addEventListener("keydown", event => {
    const point = event.target.closest?.(".point");
    if (point && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); take(point); }
  });
  window.addEventListener("hashchange", start);
}

async function copy() {
  try { await navigator.clipboard.writeText(place.command); } catch { setBox(place.command); $("text").select(); document.execCommand("copy"); }
  $("copy").textContent = "Copied";
  setTimeout(() => { $("copy").textContent = "Copy"; }, 1200);
}

function start() {
  if (!recall()) { drawEmpty("plan"); return; }
  $("gpu").value = place.gpu;
  $("cache").value = place.cache;
  setBox(place.command || place.model);
  for (const view of Object.keys(place.forms)) fillForm(view);
  const view = place.view in DOING || place.view === "explain" ? place.view : "plan";
  if (place.command && view !== "plan" && CONTROLLED.has(view)) open("plan").then(() => open(view));
  else open(view);
}

async function offer() {
  const known = await (await fetch("/api/catalog")).json();
  const options = list => list.map(value => tag("option", {value}));
  $("gpus").replaceChildren(...options(known.gpus));
  $("models").replaceChildren(...options(known.models));
  if (!$("release").options.length) drawReleases(known.releases, {name: known.engines[0].name, version: known.releases[0]});
  usual = known.live || "RTX 4090";
  if (!place.gpu) place.gpu = $("gpu").value = usual;
}

wire();
$("controls").open = matchMedia("(min-width:1080px)").matches;
start();
offer();
