// What a picture's <title> says, at once and for the keyboard too.
import {$} from "./dom.js";

export function wireTips(root) {
  root.addEventListener("pointerover", event => show(event.target, event.clientX, event.clientY));
  root.addEventListener("pointermove", event => { if (!$("tip").hidden) move(event.clientX, event.clientY); });
  root.addEventListener("pointerout", hide);
  root.addEventListener("focusin", event => {
    const shape = event.target.closest?.(".point");
    if (!shape) return;
    const box = shape.getBoundingClientRect();
    show(shape.firstChild, box.right, box.bottom);
  });
  root.addEventListener("focusout", hide);
  document.addEventListener("keydown", event => { if (event.key === "Escape") hide(); });
}

// The browser's own hint would come later and say the same again.
export function takeTitles(root) {
  for (const title of root.querySelectorAll("svg title")) { title.parentNode.dataset.tip = title.textContent; title.remove(); }
}

function show(shape, x, y) {
  const text = shape?.dataset?.tip;
  if (!text) return;
  $("tip").textContent = text;
  $("tip").hidden = false;
  move(x, y);
}

function move(x, y) {
  const tip = $("tip"), {width, height} = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - width - 8)) + "px";
  tip.style.top = (y + 18 + height > innerHeight ? y - height - 10 : y + 18) + "px";
}

function hide() { $("tip").hidden = true; }
