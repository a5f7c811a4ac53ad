// Where the user stands. The address carries it, so that it can be kept and sent: commands come from the server, which
// takes secrets out of them; a pasted text and a log never get into the address.
import {keep, write} from "./kept.js";

// text, file: the user's own. unread: the server has not said yet what it is. moved: controls that the command does not
// have yet. view: "" lets the text choose it. engine: the release; chosen, fixed: by the user, and not by a text; earlier:
// before this text was there; mine: the GPU that the user has chosen, while a log of another one is shown.
export const place = {view: "", text: "", file: null, name: "", unread: false, stage: "", words: "", command: "", model: "", gpu: "", chosen: false, earlier: false, mine: "",
  engine: "", fixed: false, cache: "cold", own: false, tabs: [], at: 0, runs: [], run: 0, applied: [], moved: {}, forms: {}, live: ""};

const LONGEST = 7000;
const CARRIED = ["view", "words", "command", "model", "gpu", "mine", "engine"];
let stepped = false;

// The user went somewhere: what follows gets an entry of its own, so that the browser's Back returns from it.
export function step() { write(); stepped = true; }

export function address() {
  const out = new URLSearchParams();
  for (const key of CARRIED) if (place[key] && !(place.words && (key === "command" || key === "model"))) out.set(key, place[key]);
  if (place.gpu && !place.chosen) out.set("said", "1"); // by the text: the next one is not asked with it
  if (place.cache !== "cold") out.set("cache", place.cache);
  if (place.own) out.set("own_build", "1");
  if (place.tabs.length > 1) {
    const tabs = JSON.stringify(place.tabs.map(({name, command, request, gpu, outcome, model}) => ({name, command, request, gpu, outcome, model})));
    if (tabs.length < LONGEST / 2) { out.set("tabs", tabs); out.set("at", place.at); }
  }
  for (const [view, fields] of Object.entries(place.forms))
    for (const [name, value] of Object.entries(fields)) if (value !== "" && value !== false && value !== 0) out.set(`${view}.${name}`, value);
  const text = out.toString();
  return text.length < LONGEST ? "#" + text : "#view=" + place.view;
}

export function remember() {
  const there = address(), new_entry = stepped || !history.state?.entry;
  if (there !== location.hash || new_entry)
    history[stepped ? "pushState" : "replaceState"](new_entry ? {entry: crypto.randomUUID()} : history.state, "", there);
  stepped = false;
  keep(document.getElementById("text").value, place.file ? null : place.text);
}

export function recall() {
  const said = new URLSearchParams(location.hash.slice(1));
  Object.assign(place, {text: "", file: null, name: "", unread: false, stage: "", tabs: [], at: 0, runs: [], run: 0, applied: [], moved: {}, forms: {}, fixed: false, earlier: false});
  for (const key of CARRIED) place[key] = said.get(key) ?? "";
  place.cache = said.get("cache") === "warm" ? "warm" : "cold";
  place.own = said.get("own_build") === "1";
  place.chosen = Boolean(place.gpu) && said.get("said") !== "1";
  for (const [key, value] of said) {
    const [view, name] = key.split(".");
    if (name) (place.forms[view] ??= {})[name] = value;
  }
  try {
    const tabs = JSON.parse(said.get("tabs") ?? "[]");
    place.tabs = Array.isArray(tabs) ? tabs.slice(0, 40) : [];
  } catch { place.tabs = []; }
  place.at = Math.min(Number(said.get("at")) || 0, Math.max(0, place.tabs.length - 1));
}

// What every question about the deployment begins with.
export function subject() {
  const named = place.command ? {command: place.command} : place.model ? {model: place.model} : {};
  return {...named, gpu: place.gpu || place.live, engine: place.engine, compile_cache: place.cache, ...(place.own ? {own_build: true} : {})};
}
