// The questions of the views that have some: their fields to a case, and back from the address.
import {place} from "./place.js";

const NUMBERS = new Set(["users", "prompt", "output"]);

export function formOf(view) { return document.querySelector(`[data-form="${view}"]`); }

export function showForm(view) {
  for (const form of document.querySelectorAll("[data-form]")) form.hidden = form.dataset.form !== view;
}

export function fillForm(view) {
  const form = formOf(view);
  for (const [name, value] of Object.entries(place.forms[view] ?? {})) {
    const input = form?.elements[name];
    if (input?.type === "checkbox") input.checked = value === true || value === "true";
    else if (input) input.value = value;
  }
}

export function readForm(view) {
  const form = formOf(view), out = {};
  for (const input of form?.elements ?? []) {
    if (!input.name) continue;
    out[input.name] = input.type === "checkbox" ? input.checked : NUMBERS.has(input.name) ? Number(input.value) || 0 : input.value;
  }
  place.forms[view] = {...out};
  return view === "diff" ? {other: out} : out;
}

export function complain(refused) {
  for (const line of document.querySelectorAll("[data-error]")) line.textContent = "";
  if (!refused) return;
  const here = [...document.querySelectorAll("[data-error]")].filter(line => !line.closest("[hidden]"));
  const line = here.find(one => one.dataset.error.split(" ").includes(refused.field)) ?? document.getElementById("error-text");
  const hint = refused.hint && !/(^|\W)(oomph |--\w)/.test(refused.hint) ? " Hint: " + refused.hint : ""; // the page has no command line
  line.textContent = refused.message.charAt(0).toUpperCase() + refused.message.slice(1).replace(/\.*$/, ".") + hint;
}
