// The flags that can be moved. The server says which there are and what is in force; moving one asks for the command anew.
import {$, tag} from "./dom.js";

let change = () => {};

export function wireControls(move) {
  change = move;
  $("levers").addEventListener("submit", event => event.preventDefault());
}

// The one in the user's hand stays where it is: to replace it would end a drag.
export function drawControls(controls) {
  const form = $("levers"), held = document.activeElement?.closest("#levers") ? document.activeElement : null;
  const alike = form.children.length === controls.length && controls.every((one, i) => form.children[i].dataset.field === one.field);
  if (!alike) { form.replaceChildren(...controls.map(label)); return; }
  controls.forEach((control, i) => {
    if (held?.type !== "range" || held.name !== control.field || Number(held.max) !== steps(control).length - 1) form.children[i].replaceWith(label(control));
    else form.children[i].querySelector(".value").textContent = words(control);
  });
  if (held && !held.isConnected) form.elements[held.name]?.focus({preventScroll: true});
}

function label(control) {
  const node = draw(control);
  node.dataset.field = control.field;
  return node;
}

function draw(control) {
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
  const places = steps(control);
  const slider = tag("input", {type: "range", name: field, min: 0, max: places.length - 1, "aria-valuetext": words(control)});
  slider.value = nearest(places, Number(value) || 0);
  slider.addEventListener("input", () => {
    shown.textContent = places[slider.value].toLocaleString("en");
    slider.setAttribute("aria-valuetext", shown.textContent);
    change(field, places[slider.value]);
  });
  return tag("label", {}, head, slider);
}

function steps({form, steps}) { return form === "share" ? [...Array(70)].map((_, i) => (30 + i) / 100) : steps; }

function words({value, set}) {
  const text = typeof value === "number" ? value.toLocaleString("en") : value === null || value === undefined || value === "" ? "default" : String(value);
  return set || text === "default" ? text : `${text} (default)`;
}

function nearest(list, n) { return list.reduce((best, x, i) => Math.abs(x - n) < Math.abs(list[best] - n) ? i : best, 0); }
