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
const EXAMPLES = [
  ["RTX 4090", "vllm serve Qwen/Qwen3-8B --max-model-len 16384"],
  ["2x RTX 5070 Ti", "vllm serve nvidia/Gemma-4-31B-IT-NVFP4 --tensor-parallel-size 2"],
  ["RTX 3090", "llama-server -hf unsloth/Qwen3-30B-A3B-GGUF:Q4_K_M -c 32768"],
];

// examples: whether nothing has been asked yet
export function emptyView(view, examples) {
  const [title, text] = EMPTY[view];
  const box = tag("div", {class: "empty"}, tag("h1", {}, title), tag("p", {}, text));
  if (view === "plan" && examples) {
    const list = tag("div", {class: "examples"}, tag("span", {}, "For example:"));
    for (const [gpu, command] of EXAMPLES)
      list.append(tag("button", {type: "button", "data-command": command, "data-gpu": gpu}, tag("code", {}, command), ` on ${gpu}`));
    box.append(list);
  }
  return box;
}

export function cancelledView() {
  return tag("div", {class: "empty"}, tag("h1", {}, "Cancelled"), tag("p", {}, "Nothing was answered."), tag("button", {type: "button", class: "main again"}, "Ask again"));
}
