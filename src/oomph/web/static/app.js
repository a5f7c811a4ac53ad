"use strict";
const $ = id => document.getElementById(id);
const SEQS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024], TOKENS = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];
const SELECTS = ["tensor_parallel_size", "pipeline_parallel_size", "kv_cache_dtype"];
const CHECKS = ["enforce_eager", "language_model_only", "enable_expert_parallel"];
const LABEL = {startup_free_memory: "at the first check: too little memory is free", weights_load: "while loading the weights",
  profile_run: "in the profiling run", cudagraph_profile: "while profiling CUDA graphs", kv_check: "at the KV cache check",
  kv_alloc: "while allocating the KV cache", cudagraph_capture: "while capturing CUDA graphs", sampler_warmup: "while warming up the sampler",
  other: "before any memory is touched"};
// What the page shows is this and nothing else; the address carries it.
let state = {model: "Qwen/Qwen3-8B", gpu: "RTX 4090", count: 1, engine: "", compile_cache: "cold", flags: {}};
let longest = 262144, serial = 0, plan = null;

async function ask(path, body, headers = {}) {
  const answer = await fetch(path, {method: "POST", headers: {"X-Oomph": "1", ...headers}, body});
  const value = await answer.json().catch(() => ({error: "the server did not answer"}));
  if (!answer.ok) throw new Error(value.error + (value.hint ? " (" + value.hint + ")" : ""));
  return value;
}

function wanted() {
  return {model: state.model, flags: state.flags, engine: state.engine ? "vllm==" + state.engine : "", compile_cache: state.compile_cache,
    gpu: state.count > 1 ? `${state.count}x ${state.gpu}` : state.gpu};
}

function contexts() {
  const out = [];
  for (let n = 1024; n < longest; n *= 2) { out.push(n, n * 1.5); }
  return [...out.filter(n => n < longest), longest];
}

function nearest(list, n) { return list.reduce((best, x, i) => Math.abs(x - n) < Math.abs(list[best] - n) ? i : best, 0); }

function draw() {
  $("model").value = state.model; $("gpu").value = state.gpu; $("count").value = state.count;
  $("engine").value = state.engine; $("compile_cache").value = state.compile_cache;
  for (const id of SELECTS) $(id).value = state.flags[id] ?? (id === "kv_cache_dtype" ? "" : "1");
  for (const id of CHECKS) $(id).checked = state.flags[id] === true;
}

function drawRanges(resolved) {
  const steps = contexts();
  $("max_model_len").max = steps.length - 1;
  $("max_model_len").value = nearest(steps, resolved.max_model_len);
  $("max_num_seqs").value = nearest(SEQS, resolved.max_num_seqs);
  $("max_num_batched_tokens").value = nearest(TOKENS, resolved.max_num_batched_tokens);
  $("gpu_memory_utilization").value = resolved.gpu_memory_utilization;
  for (const id of ["max_model_len", "max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization"])
    $(id + "_out").textContent = Number(resolved[id]).toLocaleString("en") + (id in state.flags ? "" : " (default)");
}

function remember() { history.replaceState(null, "", "#" + encodeURIComponent(JSON.stringify(state))); }

async function replan() {
  const mine = ++serial;
  remember();
  try {
    const got = await ask("/api/plan", JSON.stringify(wanted()));
    if (mine !== serial) return;
    plan = got;
    show(got);
  } catch (error) {
    if (mine !== serial) return;
    $("verdict").replaceChildren(tag("b", "bad", "NOT PLANNED"), error.message);
    for (const id of ["bars", "timeline", "facts", "notes", "legend"]) $(id).replaceChildren();
    $("message").hidden = true;
  }
}

function tag(name, kind, text) { const node = document.createElement(name); node.className = kind; node.textContent = text; return node; }

function show(got) {
  const v = got.verdict, verdict = $("verdict");
  if (v.fits) verdict.replaceChildren(tag("b", "good", "FITS"), v.sure ? "" : "but close: the assumed terms could tip it");
  else verdict.replaceChildren(tag("b", "bad", "WILL NOT START"), v.stage === "other" ? "vLLM refuses " + LABEL.other
    : `out of memory ${LABEL[v.stage] || v.stage}, ${size(v.short_bytes)} short`);
  verdict.dataset.stage = v.stage || "";
  verdict.dataset.fits = v.fits;
  $("message").hidden = !v.message;
  $("message").textContent = v.message;
  const alike = new Map();
  for (const rank of got.ranks) {
    const key = JSON.stringify([rank.gpu, rank.total_bytes, rank.used_by_others_bytes, Object.values(rank.terms).map(t => t.bytes)]);
    if (!alike.has(key)) alike.set(key, rank);
  }
  $("bars").replaceChildren(...[...alike.values()].map(r => bar(r, got)));
  $("legend").replaceChildren(...(got.ranks.length ? KINDS.map(([kind, label]) => { const s = tag("span", "", label); s.prepend(tag("i", kind, "")); return s; }) : []));
  $("timeline").replaceChildren(...(got.ranks.length ? [timeline(got.ranks[Math.min(v.rank, got.ranks.length - 1)], got)] : []));
  facts(got);
  $("notes").replaceChildren(...[...got.warnings, ...got.assumptions].map(x => tag("li", "", x)));
  $("command").value = got.command;
  if (got.resolved.max_model_len) {
    if (!("max_model_len" in state.flags)) longest = Math.max(4096, got.resolved.max_model_len);
    drawRanges(got.resolved);
  }
}

function facts(got) {
  const kv = got.kv, rows = [];
  if (kv) {
    rows.push([kv.logged_tokens.toLocaleString("en"), "tokens of KV cache" + (got.verdict.fits ? ", as vLLM prints it" : ": too few")],
      [kv.max_concurrency.toFixed(2), `requests of ${got.resolved.max_model_len.toLocaleString("en")} tokens at once`],
      [size(kv.need_bytes), "KV cache of one such request"], [size(Math.max(0, kv.available_bytes)), "KV cache memory a GPU"]);
    if (kv.longest_request) rows.push([kv.longest_request.toLocaleString("en"), "tokens of the longest request"]);
  }
  if (got.ranks.length) rows.push([size(got.ranks[0].terms.weights.bytes), "weights a GPU"], [size(got.ranks[0].terms.activation_peak.bytes), got.ranks[0].terms.activation_peak.why]);
  $("facts").replaceChildren(...rows.map(([value, name]) => { const d = document.createElement("div"); d.append(tag("b", "", value), tag("span", "", name)); return d; }));
}

function setFlag(name, value) {
  if (value === "" || value === null) delete state.flags[name]; else state.flags[name] = value;
  replan();
}

async function readModel() {
  const text = $("model").value.trim();
  if (!text || text === state.model) return;
  if (/\s/.test(text) && /serve|LLM\(|docker|python/.test(text)) {
    try {
      const got = await ask("/api/plan", JSON.stringify({...wanted(), command: text}));
      Object.assign(state, {model: modelOf(got), flags: got.flags});
    } catch (error) { $("verdict").replaceChildren(tag("b", "bad", "NOT PLANNED"), error.message); return; }
  } else Object.assign(state, {model: text, flags: keep(state.flags)});
  longest = 262144;
  draw();
  replan();
}

function keep(flags) { const out = {...flags}; delete out.max_model_len; return out; }
function modelOf(got) { return got.command.match(/serve\s+'?([^\s']+)/)?.[1] ?? got.model; }

function wire() {
  $("model").addEventListener("change", readModel);
  $("controls").addEventListener("submit", e => { e.preventDefault(); readModel(); });
  $("gpu").addEventListener("change", () => { state.gpu = $("gpu").value; replan(); });
  $("count").addEventListener("change", () => { state.count = Math.max(1, Number($("count").value) || 1); replan(); });
  $("engine").addEventListener("change", () => { state.engine = $("engine").value; replan(); });
  $("compile_cache").addEventListener("change", () => { state.compile_cache = $("compile_cache").value; replan(); });
  for (const id of SELECTS) $(id).addEventListener("change", () => {
    const v = $(id).value;
    if (id === "tensor_parallel_size" || id === "pipeline_parallel_size") {
      const need = Number($("tensor_parallel_size").value) * Number($("pipeline_parallel_size").value);
      if (need > state.count) { state.count = need; $("count").value = need; }
      setFlag(id, v === "1" ? null : Number(v));
    } else setFlag(id, v);
  });
  for (const id of CHECKS) $(id).addEventListener("change", () => setFlag(id, $(id).checked || null));
  $("max_model_len").addEventListener("input", () => setFlag("max_model_len", contexts()[Number($("max_model_len").value)]));
  $("max_num_seqs").addEventListener("input", () => setFlag("max_num_seqs", SEQS[Number($("max_num_seqs").value)]));
  $("max_num_batched_tokens").addEventListener("input", () => setFlag("max_num_batched_tokens", TOKENS[Number($("max_num_batched_tokens").value)]));
  $("gpu_memory_utilization").addEventListener("input", () => setFlag("gpu_memory_utilization", Number($("gpu_memory_utilization").value)));
  $("copy").addEventListener("click", copy);
  $("explain").addEventListener("click", explainLog);
  $("compare").addEventListener("click", compare);
  $("weigh").addEventListener("click", weigh);
  $("load").addEventListener("submit", simulate);
  $("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  const tabs = [...document.querySelectorAll("[role=tab]")];
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => open(tab.id.slice(4)));
    tab.addEventListener("keydown", e => {
      const to = {ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: tabs.length - 1}[e.key];
      if (to !== undefined) { const next = tabs[(to + tabs.length) % tabs.length]; open(next.id.slice(4)); next.focus(); }
    });
  });
  const log = $("log");
  log.addEventListener("dragover", e => e.preventDefault());
  log.addEventListener("drop", e => { e.preventDefault(); const file = e.dataTransfer.files[0]; if (file) explainBody(file, file.name); });
  window.addEventListener("resize", () => { if (plan) show(plan); });
  window.addEventListener("hashchange", () => { if (restore()) { draw(); replan(); } });
}

function open(name) {
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const on = tab.id === "tab-" + name;
    tab.setAttribute("aria-selected", on);
    tab.tabIndex = on ? 0 : -1;
    $("view-" + tab.id.slice(4)).hidden = !on;
  }
}

async function copy() {
  try { await navigator.clipboard.writeText($("command").value); }
  catch { $("command").select(); document.execCommand("copy"); }
  $("copy").textContent = "Copied";
  setTimeout(() => { $("copy").textContent = "Copy"; }, 1200);
}

function explainLog() { explainBody($("log").value, ""); }

async function explainBody(body, name) {
  const out = $("explanation");
  out.replaceChildren(tag("p", "", name ? `Reading ${name} ...` : "Reading ..."));
  try {
    const query = $("log-gpu").value ? "?gpu=" + encodeURIComponent($("log-gpu").value) : "";
    const got = await ask("/api/explain" + query, body, {"Content-Type": "text/plain"});
    explanation(got, typeof body === "string" ? body : "");
  } catch (error) { out.replaceChildren(tag("p", "bad", error.message)); }
}

const ORDER = ["startup_free_memory", "weights_load", "profile_run", "cudagraph_profile", "kv_check", "kv_alloc", "cudagraph_capture", "sampler_warmup", "runtime_request"];

function explanation(got, text) {
  const out = $("explanation"), parts = [];
  const head = tag("p", "verdict", "");
  const cut = !got.failed && got.inferred_reason && got.cause.id === "none";
  const unclear = got.failed === null;  // there are signs of an error, and nothing says that the run ended of it
  const word = got.failed ? "FAILED" : unclear ? "CANNOT TELL" : cut ? "NO ERROR IN THIS LOG" : "DID NOT FAIL";
  head.append(tag("b", got.failed ? "bad" : unclear ? "" : "good", word), cut ? "" : got.cause.title);
  head.dataset.cause = got.cause.id;
  head.dataset.stage = got.stage || "";
  parts.push(head);
  if (got.failed) {
    const strip = tag("ol", "strip", ""), at = ORDER.indexOf(got.stage);
    ORDER.forEach((stage, i) => strip.append(tag("li", i < at ? "done" : i === at ? "died" : "", (STAGE[stage] || stage) + (i === at ? ": died here" : ""))));
    parts.push(strip);
  }
  parts.push(tag("p", "", got.cause.text));
  if (got.inferred_reason) parts.push(tag("p", "", "Inferred: " + got.inferred_reason));
  if (got.ledger.length) parts.push(table(["term", "size", "from"], got.ledger.map(r => [r.term, size(r.bytes), r.basis]), [1]));
  if (got.remedies.length) parts.push(tag("h2", "", "What works"));
  for (const r of got.remedies) {
    const box = tag("div", "remedy", "");
    box.append(tag("code", "", r.change));
    if (r.command && r.command.startsWith("vllm")) {
      const apply = tag("button", "", "Apply");
      apply.type = "button";
      apply.addEventListener("click", () => applyRemedy(r.command, got));
      box.append(apply);
    }
    box.append(tag("small", "", (r.verified ? "planned: fits. " : "not planned. ") + (r.gains_bytes ? size(r.gains_bytes) + " gained. " : "") + (r.costs || "")));
    parts.push(box);
  }
  if (got.rejected.length) {
    parts.push(tag("h2", "", "What does not"));
    parts.push(table(["advice", "why not"], got.rejected.map(r => [r.advice, r.why]), []));
  }
  if (got.evidence.length) {
    parts.push(tag("h2", "", "Evidence"));
    const pre = tag("pre", "log", "");
    pre.tabIndex = 0;
    const lines = text ? text.split("\n") : [];
    for (const e of got.evidence) {
      const mark = tag("mark", "", `${e.line}  ${(lines[e.line - 1] || e.text).trim()}`);
      pre.append(mark, "\n");
    }
    parts.push(pre);
  }
  out.replaceChildren(...parts);
}

async function applyRemedy(command, got) {
  const total = got.total_bytes;
  const gpu = $("log-gpu").value || (total ? (total / GIB).toFixed(2) + "GiB" : state.gpu);
  const version = got.engine.version;
  try {
    const made = await ask("/api/plan", JSON.stringify({command, gpu, engine: version ? "vllm==" + version : ""}));
    const world = (made.flags.tensor_parallel_size || 1) * (made.flags.pipeline_parallel_size || 1);
    state = {model: modelOf(made), gpu: gpu.replace(/^\d+\s*x\s*/, ""), count: world, engine: version || "", compile_cache: "cold", flags: made.flags};
    draw();
    open("plan");
    replan();
  } catch (error) { $("explanation").prepend(tag("p", "bad", error.message)); }
}

function table(heads, rows, right) {
  const wrap = tag("div", "scroll", ""), t = document.createElement("table"), head = t.createTHead().insertRow(), body = t.createTBody();
  wrap.tabIndex = 0;
  heads.forEach((h, i) => { const th = document.createElement("th"); th.scope = "col"; th.textContent = h; if (right.includes(i)) th.className = "n"; head.append(th); });
  for (const row of rows) { const tr = body.insertRow(); row.forEach((cell, i) => { const td = tr.insertCell(); td.textContent = cell; if (right.includes(i)) td.className = "n"; }); }
  wrap.append(t);
  return wrap;
}

function shown(value) {
  if (value === null || value === undefined) return "-";
  if (Array.isArray(value)) return value.length + " sizes";
  if (typeof value === "number") return Number.isInteger(value) && Math.abs(value) > 2 ** 22 ? size(value) : value.toLocaleString("en");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

// A figure in words, a setting in vLLM's own; the same words as in the terminal.
const WHAT = {available_kv: "KV cache memory", kv_tokens: "KV cache tokens (as printed)", num_blocks: "KV cache blocks", max_concurrency: "requests at once",
  kv_need_of_one_request: "KV of one longest request", cudagraph: "CUDA graphs", non_torch: "outside PyTorch"};
function what(change) { return WHAT[change.what] || change.what.replaceAll("_", " "); }
function stage(value) { return String(value).startsWith("fails at ") ? "dies " + (LABEL[value.slice(9)] || value.slice(9)) : shown(value); }

async function compare() {
  const out = $("comparison");
  out.replaceChildren(tag("p", "", "Planning ..."));
  const other = {engine: $("other-engine").value ? "vllm==" + $("other-engine").value : "", gpu: $("other-gpu").value, model: $("other-model").value};
  try {
    const got = await ask("/api/diff", JSON.stringify({...wanted(), other}));
    const cards = p => p.ranks.length ? ` on ${p.ranks.length > 1 ? p.ranks.length + " x " : ""}${p.ranks[0].gpu}` : "";
    const side = p => `${p.model}, vLLM ${p.engine.version}${cards(p)}: ${p.verdict.fits ? "fits" : "does not start"}`;
    const rows = got.changes.map(c => [what(c), stage(c.before), stage(c.after)]);
    const parts = [tag("p", "", side(got.before) + "  →  " + side(got.after)), table(["what", "now", "then"], rows, [1, 2])];
    if (got.steps.length) parts.push(tag("h2", "", "Which release"), table(["release", "what", "from", "to"], got.steps.map(c => [c.since, what(c), stage(c.before), stage(c.after)]), [2, 3]));
    for (const f of got.flags) parts.push(tag("p", "bad", f));
    out.replaceChildren(...parts);
  } catch (error) { out.replaceChildren(tag("p", "bad", error.message)); }
}

async function simulate(event) {
  event.preventDefault();
  const out = $("simulation");
  out.replaceChildren(tag("p", "", "Simulating ..."));
  const load = {users: Number($("sim-users").value), prompt: Number($("sim-prompt").value), output: Number($("sim-output").value)};
  try {
    const got = await ask("/api/simulate", JSON.stringify({...wanted(), ...load}));
    const text = tag("pre", "log tall", got.text), picture = document.createElement("img");
    text.tabIndex = 0;
    picture.alt = "KV cache in use and running requests over time";
    picture.src = "data:image/svg+xml," + encodeURIComponent(got.svg);
    out.replaceChildren(text, picture);
  } catch (error) { out.replaceChildren(tag("p", "bad", error.message)); }
}

async function weigh() {
  const out = $("levers");
  out.replaceChildren(tag("p", "", "Planning ..."));
  try {
    const got = await ask("/api/levers", JSON.stringify(wanted()));
    const rows = got.levers.map(l => [l.label, l.gain_bytes ? (l.gain_bytes > 0 ? "+" : "") + size(l.gain_bytes) : "nothing", l.fits ? "fits" : "does not start", l.tokens ? l.tokens.toLocaleString("en") : "-", l.cost]);
    out.replaceChildren(table(["flag", "gains", "then", "tokens", "costs"], rows, [1, 3]));
  } catch (error) { out.replaceChildren(tag("p", "bad", error.message)); }
}

function theme(name) { document.documentElement.dataset.theme = name; try { localStorage.setItem("theme", name); } catch { /* private mode */ } }

function restore() {
  try {
    const saved = JSON.parse(decodeURIComponent(location.hash.slice(1)));
    if (saved && typeof saved === "object" && typeof saved.model === "string") { state = {...state, ...saved, flags: {...saved.flags}}; return true; }
  } catch { /* no state in the address */ }
  return false;
}

function options(select, values, first) {
  select.replaceChildren(...[["", first], ...values.map(v => [v, v])].map(([v, t]) => { const o = document.createElement("option"); o.value = v; o.textContent = t; return o; }));
}

async function begin() {
  let saved = null;
  try { saved = localStorage.getItem("theme"); } catch { /* private mode */ }
  theme(saved || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  restore();
  const lists = await (await fetch("/api/catalog")).json();
  for (const [id, values] of [["models", lists.models], ["gpus", lists.gpus]])
    $(id).replaceChildren(...values.map(v => { const o = document.createElement("option"); o.value = v; return o; }));
  options($("engine"), lists.releases, "newest known");
  options($("other-engine"), lists.releases, "the same");
  wire();
  draw();
  replan();
}

begin();
