// Where the user stands. The address carries it, so that it can be kept and sent: commands come from the server, which
// takes secrets out of them; a pasted text and a log never get into the address.
export const place = {view: "plan", command: "", model: "", gpu: "", chosen: false, engine: "", cache: "cold", tabs: [], at: 0, runs: [], run: 0,
  applied: [], forms: {}};

const LONGEST = 7000;
let stepped = false;

// The user went somewhere: what follows gets an entry of its own, so that the browser's Back returns from it.
export function step() { stepped = true; }

export function remember() {
  const out = new URLSearchParams();
  for (const key of ["view", "command", "model", "gpu", "engine"]) if (place[key]) out.set(key, place[key]);
  if (place.cache !== "cold") out.set("cache", place.cache);
  if (place.tabs.length > 1) {
    const tabs = JSON.stringify(place.tabs.map(({name, command, request, gpu, outcome, model}) => ({name, command, request, gpu, outcome, model})));
    if (tabs.length < LONGEST / 2) { out.set("tabs", tabs); out.set("at", place.at); }
  }
  for (const [view, fields] of Object.entries(place.forms))
    for (const [name, value] of Object.entries(fields)) if (value !== "" && value !== false && value !== 0) out.set(`${view}.${name}`, value);
  const text = out.toString();
  const there = text.length < LONGEST ? "#" + text : "#view=" + place.view;
  if (there !== location.hash) history[stepped ? "pushState" : "replaceState"](null, "", there);
  stepped = false;
}

export function recall() {
  const said = new URLSearchParams(location.hash.slice(1));
  if (![...said].length) return false;
  for (const key of ["view", "command", "model", "gpu", "engine"]) place[key] = said.get(key) ?? "";
  place.view ||= "plan";
  place.cache = said.get("cache") === "warm" ? "warm" : "cold";
  place.chosen = Boolean(place.gpu);
  place.forms = {};
  for (const [key, value] of said) {
    const [view, name] = key.split(".");
    if (name) (place.forms[view] ??= {})[name] = value;
  }
  try {
    const tabs = JSON.parse(said.get("tabs") ?? "[]");
    place.tabs = Array.isArray(tabs) ? tabs.slice(0, 40) : [];
  } catch { place.tabs = []; }
  place.at = Math.min(Number(said.get("at")) || 0, Math.max(0, place.tabs.length - 1));
  return true;
}

// What every question about the deployment begins with.
export function subject() {
  const named = place.command ? {command: place.command} : place.model ? {model: place.model} : {};
  return {...named, gpu: place.gpu, engine: place.engine, compile_cache: place.cache};
}
