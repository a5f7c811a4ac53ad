// The questions of the views that have some: their fields to a case, and back from the address.
import {place} from "./place.js";
import {sentence} from "./refusals.js";

const NUMBERS = new Set(["users", "prompt", "output"]);

export function formOf(view) { return document.querySelector(`[data-form="${view}"]`); }

export function showForm(view) {
  for (const form of document.querySelectorAll("[data-form]")) form.hidden = form.dataset.form !== view;
  for (const name of ["cards", "compare"]) formOf(name).elements.context.placeholder = place.command ? "the command's" : "8192"; // that is what is asked then
}

// whole: fields that nothing is said of are empty.
export function fillForm(view, whole = false) {
  const form = formOf(view);
  if (whole) form?.reset();
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

// Beside the field that it is about, in short: the view says all of it.
export function complain(refused) {
  for (const line of document.querySelectorAll("[data-error]")) line.textContent = "";
  for (const field of document.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  if (!refused?.field) return;
  const line = [...document.querySelectorAll("[data-error]")].find(one => !one.closest("[hidden]") && one.dataset.error.split(" ").includes(refused.field));
  if (!line) return;
  line.textContent = sentence(refused.message);
  document.querySelector(`[aria-describedby~="${line.id}"]`)?.setAttribute("aria-invalid", "true");
}
