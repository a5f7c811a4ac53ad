// What the page says where there is no answer yet, and while one is on its way.
import {tag} from "./dom.js";

export const DOING = {plan: "Planning", what_if: "Planning every change", simulate: "Simulating", diff: "Planning both sides", fit: "Searching", cards: "Trying the cards",
  models: "Trying the models", compare: "Planning on every engine", inspect: "Reading the checkpoint"};
export const VIEWS = [...Object.keys(DOING), "explain"];
const EMPTY = {
  plan: ["Will it fit?", "Paste the command you were about to run: the page says whether it starts, where each GiB goes, at which stage it would die, and what really helps."],
  explain: ["Why did it die?", "Paste or drop the log of a run: the page names the stage, the cause and the fix, and proves the fix by planning it."],
  what_if: ["What would each flag do?", "Paste a command: every change that moves memory is made alone and planned."],
  simulate: ["How many users does it hold?", "Paste a command that starts: the engine's scheduler is played on the planned KV cache."],
  diff: ["What does an upgrade move?", "Paste a command, then choose another release, other GPUs, another model or further flags."],
  fit: ["What serves a model best here?", "Type a model's name or paste a command: checkpoints, layouts and flags are searched, each of them planned."],
  models: ["What fits here?", "Say which GPUs: the models that they hold are ranked, each with the command that serves it."],
  cards: ["Which GPUs?", "Type a model's name: the cards that serve it, from the smallest on."],
  compare: ["Which engine?", "Type a model's name or paste a command: each engine is planned at its best."],
  inspect: ["What is in a checkpoint?", "Type a model's name: its bytes by part and dtype, what is not quantised and what that costs."],
};
const DIED = `vllm serve Qwen/Qwen3-32B --max-model-len 16384
INFO 11-15 10:00:00 [core.py:109] Initializing a V1 LLM engine (v0.21.0) with config: model='Qwen/Qwen3-32B'
ERROR 11-15 10:00:09 [core.py:700] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 500.00 MiB. GPU 0 has a total capacity of 23.52 GiB of which 312.00 MiB is free.`;
// What people come with, the words of each, and examples: [what stands on the button, what goes into the box].
const ENTRIES = [
  ["Will it fit?", "Paste the command you were about to run: whether it starts, where each GiB goes, and what really helps.",
    [["vllm serve Qwen/Qwen3-8B --max-model-len 16384", "on RTX 4090"], ["vllm serve nvidia/Gemma-4-31B-IT-NVFP4 -tp 2", "on 2x RTX 5070 Ti"],
      ["llama-server -hf unsloth/Qwen3-30B-A3B-GGUF:Q4_K_M -c 32768", "on RTX 3090"]]],
  ["What can I run?", "Ask in your own words: a model, GPUs, or both.",
    [["can I run gpt-oss-120b on 2x 4090?"], ["what fits on a Mac mini 64GB"], ["which GPU for Qwen3-32B?"]]],
  ["Why did it die?", "Paste or drop the log: the stage, the cause, and a fix that was planned.", [["a log that ends out of memory", "", DIED]]],
];

// examples: whether nothing has been asked yet
export function emptyView(view, examples) {
  if (view === "plan" && examples) return tag("div", {class: "empty entries"}, ...ENTRIES.map(entry));
  const [title, text] = EMPTY[view];
  return tag("div", {class: "empty"}, tag("h1", {}, title), tag("p", {}, text));
}

function entry([title, text, examples]) {
  const buttons = examples.map(([words, gpus = "", text = `${words} ${gpus}`.trim()]) =>
    tag("button", {type: "button", "data-box": text}, gpus ? tag("code", {}, words) : words, gpus ? ` ${gpus}` : ""));
  return tag("section", {}, tag("h1", {}, title), tag("p", {}, text), tag("div", {class: "examples"}, ...buttons));
}

export function cancelledView() {
  return tag("div", {class: "empty"}, tag("h1", {}, "Cancelled"), tag("p", {}, "Nothing was answered."), tag("button", {type: "button", class: "main again"}, "Ask again"));
}
