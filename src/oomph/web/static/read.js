// What was read of the user's text, beside it: the command that is planned, what was understood, what is assumed.
import {$, tag} from "./dom.js";
import {place} from "./place.js";

export function drawRead() {
  const {command, understood, unread} = place;
  $("read").hidden = unread || !(command || understood?.length);
  $("command").textContent = command;
  $("planned").hidden = !command;
  $("command").hidden = $("edit").hidden = command === $("text").value.trim();
  $("kind").replaceChildren(...(understood ?? []).map(({words, from, is_assumed}) =>
    tag("span", {class: is_assumed ? "assumed" : ""}, words, from ? tag("small", {}, ` ${from}`) : "")));
  drawGpu();
}

// The field shows whose GPUs they are. What the user is typing there is not touched; what was selected as a whole, to be
// typed over, is still.
export function drawGpu() {
  const field = $("gpu"), value = place.gpu;
  const typing = document.activeElement === field && field.value !== field.dataset.shown;
  if (!typing && field.value !== value) {
    const whole = document.activeElement === field && field.selectionStart === 0 && field.selectionEnd === field.value.length;
    field.value = value;
    if (whole) field.select();
  }
  if (!typing) field.dataset.shown = value;
  $("gpu-from").textContent = !value ? (place.live ? "this machine's" : "") : place.chosen ? "" : "from your text";
}
