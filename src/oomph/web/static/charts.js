"use strict";
// Charts by hand: SVG elements, no library. Colours come from the style sheet, so both themes work.
const NS = "http://www.w3.org/2000/svg";
const GIB = 2 ** 30;
const KINDS = [["others", "other processes"], ["context", "CUDA context"], ["weights", "weights"], ["activations", "activation peak"],
  ["graphs", "CUDA graphs"], ["kv", "KV cache"]];

function el(name, attributes = {}, text = "") {
  const node = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text) node.textContent = text;
  return node;
}

function size(n) {
  const a = Math.abs(n);
  if (a >= GIB) return three(n / GIB) + " GiB";
  if (a >= 2 ** 20) return three(n / 2 ** 20) + " MiB";
  return a >= 1024 ? three(n / 1024) + " KiB" : n + " B";
}

// As Python rounds, a tie to the even digit: 5.625 GiB is 5.62 here, in the terminal and in vLLM's log.
function fixed(x, digits) {
  const scaled = Math.abs(x) * 10 ** digits, low = Math.floor(scaled);
  const n = scaled - low === .5 ? low + low % 2 : Math.round(scaled);
  return (Math.sign(x) * n / 10 ** digits).toFixed(digits);
}

function three(x) { return fixed(x, Math.abs(x) >= 100 ? 0 : Math.abs(x) >= 10 ? 1 : 2); }

function ledger(rank, plan) {
  const t = rank.terms, pool = plan.verdict.fits && plan.kv ? plan.kv.num_blocks * plan.kv.bytes_per_block : 0;
  return {others: rank.used_by_others_bytes, context: t.context.bytes + t.non_torch.bytes, weights: t.weights.bytes,
    activations: t.activation_peak.bytes, graphs: t.cudagraph.bytes, kv: pool};
}

const TERM = {context: "context", weights: "weights", activations: "activation_peak", graphs: "cudagraph", kv: "available_kv"};

function about(kind, rank) {
  const term = rank.terms[TERM[kind]];
  if (!term) return "";
  const parts = Object.entries(term.parts).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 6);
  const rows = parts.map(([name, n]) => `  ${name} ${size(n)}`).join("\n");
  return `\n${term.basis}: ${size(term.low)} to ${size(term.high)}\n${term.why}${rows ? "\n" + rows : ""}`;
}

function room(id) { return Math.max(320, Math.min(1148, document.getElementById(id).clientWidth || 1000)); }

function bar(rank, plan) {
  const parts = ledger(rank, plan), used = Object.values(parts).reduce((a, b) => a + b, 0);
  const whole = Math.max(used, rank.total_bytes), W = room("bars"), H = 46;
  const svg = el("svg", {viewBox: `0 0 ${W} ${H + 16}`, role: "img",
    "aria-label": `GPU ${rank.rank}: ${size(used)} of ${size(rank.total_bytes)}`});
  let x = 0;
  for (const [kind, label] of KINDS) {
    const n = parts[kind], w = n / whole * W;
    if (!n) continue;
    const piece = el("rect", {x, y: 2, width: Math.max(w - 1, 0.5), height: H - 8, class: kind, rx: 2});
    piece.append(el("title", {}, `${label}: ${size(n)}${about(kind, rank)}`));
    svg.append(piece);
    if (w > 78) svg.append(el("text", {x: x + 6, y: H / 2 + 2, class: "on"}, `${label.split(" ")[0]} ${size(n)}`));
    x += w;
  }
  const end = rank.total_bytes / whole * W, budget = rank.requested_bytes / whole * W;
  svg.append(el("line", {x1: end - 1, x2: end - 1, y1: 0, y2: H, class: "limit"}));
  svg.append(el("line", {x1: budget, x2: budget, y1: 0, y2: H, class: "budget"}));
  svg.append(el("text", {x: 0, y: H + 11}, `GPU ${rank.rank}  ${rank.gpu}`));
  const budgetText = W > 560 ? `; budget ${size(rank.requested_bytes)}` : "";
  svg.append(el("text", {x: W, y: H + 11, "text-anchor": "end"}, `${size(used)} of ${size(rank.total_bytes)}${budgetText}`));
  return svg;
}

const STAGE = {startup_free_memory: "first check", weights_load: "weights", profile_run: "profiling", cudagraph_profile: "graph profile",
  kv_check: "KV check", kv_alloc: "KV cache", cudagraph_capture: "capture", sampler_warmup: "warm-up", runtime_request: "serving"};

function timeline(rank, plan) {
  const W = room("timeline"), H = 190, base = H - 34, stages = rank.stages, top = Math.max(rank.total_bytes, ...stages.map(s => s.peak_bytes)) * 1.06;
  const y = n => base - n / top * (base - 12), step = W / Math.max(stages.length, 1);
  const svg = el("svg", {viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "Memory at each stage of the start-up"});
  let path = `M0 ${base}`;
  stages.forEach((s, i) => { path += ` L${i * step} ${y(s.resident_bytes)} L${(i + 1) * step} ${y(s.resident_bytes)}`; });
  svg.append(el("path", {d: `${path} L${W} ${base} Z`, class: "area"}));
  stages.forEach((s, i) => {
    const over = s.peak_bytes > rank.total_bytes;
    const mark = el("rect", {x: i * step + step * .3, y: y(s.peak_bytes) - 2, width: step * .4, height: 4, class: over ? "peak over" : "peak"});
    mark.append(el("title", {}, `${s.name}: resident ${size(s.resident_bytes)}, peak ${size(s.peak_bytes)}${s.note ? "\n" + s.note : ""}`));
    svg.append(mark);
    const dies = plan.verdict.stage === s.name;
    if (dies) mark.setAttribute("class", "peak over");
    if (W < 560 && !dies && i % 3) return;
    svg.append(el("text", {x: (i + .5) * step, y: H - 18, "text-anchor": "middle"}, STAGE[s.name] || s.name));
    svg.append(el("text", {x: (i + .5) * step, y: H - 5, "text-anchor": "middle"}, (dies ? "dies, " : "") + size(s.peak_bytes)));
  });
  svg.append(el("line", {x1: 0, x2: W, y1: y(rank.total_bytes), y2: y(rank.total_bytes), class: "limit"}));
  svg.append(el("text", {x: 4, y: y(rank.total_bytes) - 4}, `the card's end, ${size(rank.total_bytes)}`));
  return svg;
}
