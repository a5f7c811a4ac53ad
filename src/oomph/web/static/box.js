// The one box: what is typed, pasted, dropped or opened goes to the server as it is, and the server says what it is.
// What is in it is the user's: the page writes into it only what the user has chosen, so that Ctrl-Z brings back what was there.
import {$} from "./dom.js";
import {keep} from "./kept.js";
import {place} from "./place.js";

const READABLE = 2 ** 20; // bytes of a file that is shown in the box
const LONG = 300; // characters that are folded once they are answered

// read(text, file, name): a new question.
export function wireBox(read) {
  const box = $("text"), form = $("ask");
  const submit = () => { if (box.value.trim()) read(box.value, null, ""); };
  const open = async file => {
    if (!file) return;
    if (file.size > READABLE || /\.gz$/i.test(file.name)) { type(""); read("", file, file.name); return; }
    type(await file.text());
    read(box.value, null, file.name);
  };
  let whole = false; // what is pasted replaces all that stood there
  form.addEventListener("submit", event => { event.preventDefault(); submit(); });
  box.addEventListener("keydown", event => {
    const alone = !box.value.includes("\n") && !event.shiftKey;
    if (event.key === "Enter" && !event.isComposing && (alone || event.ctrlKey || event.metaKey)) { event.preventDefault(); submit(); }
  });
  // What is pasted over the whole box, or into an empty one, is a new question.
  box.addEventListener("paste", event => {
    const file = event.clipboardData?.files?.[0];
    if (file) { event.preventDefault(); open(file); return; }
    whole = box.value.trim() === "" || box.selectionEnd - box.selectionStart >= box.value.trim().length;
  });
  // Asked at once: a moment later a reload could come between the text and its question.
  box.addEventListener("input", event => {
    if (event.inputType === "insertFromPaste" && whole) { submit(); return; }
    tellEdit();
    keep(box.value, place.file ? null : place.text);
  });
  box.addEventListener("focus", () => box.classList.remove("folded"));
  box.addEventListener("change", () => { if (isEdited()) submit(); });
  $("file").addEventListener("change", () => { open($("file").files[0]); $("file").value = ""; });
  for (const name of ["dragenter", "dragover"]) document.addEventListener(name, event => { event.preventDefault(); form.classList.add("over"); });
  document.addEventListener("dragleave", event => { if (!event.relatedTarget) form.classList.remove("over"); });
  document.addEventListener("drop", event => {
    event.preventDefault();
    form.classList.remove("over");
    const file = event.dataTransfer.files[0], text = event.dataTransfer.getData("text");
    if (file) open(file); else if (text) { type(text); submit(); }
  });
}

// As if the user had typed it: the browser's own undo knows what was there before.
export function type(text) {
  const box = $("text"), before = document.activeElement;
  if (box.value === text) return;
  box.focus({preventScroll: true});
  box.select();
  if (!document.execCommand(text ? "insertText" : "delete", false, text)) box.value = text;
  if (before && before !== box && before !== document.body) before.focus({preventScroll: true}); else box.blur();
  tellEdit();
}

// Whether something stands there that nobody has asked yet.
export function isEdited() { return $("text").value !== place.text && $("text").value.trim() !== ""; }

export function tellEdit() { $("ask").classList.toggle("edited", isEdited()); }

export function fold() {
  const box = $("text");
  box.classList.toggle("folded", document.activeElement !== box && (box.value.length > LONG || box.value.split("\n").length > 3));
  box.placeholder = place.file ? `${place.name}, ${(place.file.size / 1e6).toFixed(1)} MB` : box.dataset.hint;
}
