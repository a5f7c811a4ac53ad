// Why there is no answer, where the answer would stand: one sentence, and buttons for what was probably meant.
import {tag} from "./dom.js";

const TITLES = {offline: "You are offline", gone: "The server does not answer", slow: "This takes too long", unknown_model: "No such model is known", gpu: "Which GPUs?",
  hub_error: "The hub did not give it", unknown_cache: "This cannot be planned yet", cannot_plan: "This cannot be planned", bug: "This is a fault of oomph"};

// meant: names that are known. wrong: the one that is not.
export function refusalView({message, hint = "", kind = "", field = "", meant = [], wrong = "", usual = []}, text) {
  const title = TITLES[field === "gpu" && kind !== "gone" ? "gpu" : kind] ?? "No answer";
  const box = tag("div", {class: "empty refusal", "data-kind": kind}, tag("h1", {}, title), tag("p", {}, sentence(message)));
  const told = (meant.length && /^did you mean/.test(hint)) || /(^|\W)(oomph |--\w)/.test(hint) ? "" : hint; // the page has no command line
  if (told) box.append(tag("p", {}, sentence(told)));
  const asked = /^oomph "(.+)"$/.exec(hint)?.[1]; // a question that has an answer
  if (asked && !meant.length) box.append(tag("p", {class: "meant"}, tag("span", {}, "For instance"), tag("button", {type: "button", "data-box": asked}, asked)));
  if (meant.length) {
    const inBox = name => wrong && text.includes(wrong) ? text.replace(wrong, name) : name;
    const buttons = meant.map(name => tag("button", {type: "button", ...(field === "gpu" ? {"data-gpu": name} : {"data-box": inBox(name)})}, name));
    box.append(tag("p", {class: "meant"}, tag("span", {}, "Did you mean"), ...buttons));
  }
  if (usual.length) box.append(tag("p", {class: "meant"}, ...usual.map(name => tag("button", {type: "button", "data-gpu": name}, name))));
  if (kind === "gone" || kind === "offline" || kind === "slow") box.append(tag("button", {type: "button", class: "main again"}, "Ask again"));
  return box;
}

// A name at the beginning keeps its letters: foo/bar-7b is not Foo/bar-7b.
export function sentence(text) {
  const first = text.split(/\s/, 1)[0], name = /[/.:\d_-]/.test(first.slice(0, -1));
  const begun = name ? text : text.charAt(0).toUpperCase() + text.slice(1);
  return /[.?!]$/.test(begun) ? begun : begun + ".";
}
