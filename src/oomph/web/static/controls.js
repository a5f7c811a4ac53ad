// The flags that can be moved. The server says which there are and what is in force; moving one asks for the command anew.
import {$, tag} from "./dom.js";

export function drawControls(controls, change) {
  const active = document.activeElement?.name;
  $("controls").hidden = !controls.length;
  $("levers").replaceChildren(...controls.map(control => draw(control, change)));
  if (active && $("levers").elements[active]) $("levers").elements[active].focus();
}

function draw(control, change) {
  const {field, label, form, value} = control;
  const shown = tag("span", {class: "value"}, words(control));
  const head = tag("span", {class: "head"}, label, form === "steps" || form === "share" ? shown : "");
  if (form === "switch") {
    const box = tag("input", {type: "checkbox", name: field});
    box.checked = value === true;
    box.addEventListener("change", () => change(field, box.checked || null));
    return tag("label", {class: "check"}, box, label);
  }
  if (form === "choice") {
    const list = tag("select", {name: field}, tag("option", {value: ""}, control.set ? "default" : words(control)));
    const set = String(value);
    for (const one of control.set && !control.choices.includes(set) ? [set, ...control.choices] : control.choices) list.append(tag("option", {}, one));
    if (control.set) list.value = set;
    list.addEventListener("change", () => change(field, list.value || null));
    return tag("label", {}, head, list);
  }
  if (form === "number") {
    const box = tag("input", {type: "number", name: field, min: 0, max: 4096, placeholder: control.set ? "" : words(control)});
    if (control.set && value !== null) box.value = value;
    box.addEventListener("change", () => change(field, box.value === "" ? null : Number(box.value)));
    return tag("label", {}, head, box);
  }
  const steps = form === "share" ? [...Array(70)].map((_, i) => (30 + i) / 100) : control.steps;
  const slider = tag("input", {type: "range", name: field, min: 0, max: steps.length - 1, "aria-valuetext": words(control)});
  slider.value = nearest(steps, Number(value) || 0);
  slider.addEventListener("input", () => {
    shown.textContent = steps[slider.value].toLocaleString("en");
    slider.setAttribute("aria-valuetext", shown.textContent);
    change(field, steps[slider.value]);
  });
  return tag("label", {}, head, slider);
}

function words({value, set}) {
  const text = typeof value === "number" ? value.toLocaleString("en") : value === null || value === undefined || value === "" ? "default" : String(value);
  return set || text === "default" ? text : `${text} (default)`;
}

function nearest(list, n) { return list.reduce((best, x, i) => Math.abs(x - n) < Math.abs(list[best] - n) ? i : best, 0); }
