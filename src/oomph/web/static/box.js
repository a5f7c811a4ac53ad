// The one box: what is typed, pasted, dropped or opened goes to the server as it is, and the server says what it is.
import {$} from "./dom.js";

export function wireBox(read) {
  const box = $("text"), form = $("ask");
  let last = "";
  const submit = () => { last = box.value; if (box.value.trim()) read(box.value, ""); };
  form.addEventListener("submit", event => { event.preventDefault(); submit(); });
  box.addEventListener("keydown", event => {
    const alone = !box.value.includes("\n") && !event.shiftKey;
    if (event.key === "Enter" && (alone || event.ctrlKey || event.metaKey)) { event.preventDefault(); submit(); }
  });
  // What is pasted over the whole box, or into an empty one, is a new question.
  box.addEventListener("paste", event => {
    const file = event.clipboardData?.files?.[0];
    if (file) { event.preventDefault(); read(file, file.name); return; }
    const whole = box.value.trim() === "" || box.selectionEnd - box.selectionStart >= box.value.trim().length;
    if (whole) setTimeout(submit);
  });
  box.addEventListener("change", () => { if (box.value !== last && box.value.trim() && box.dataset.shown !== box.value) submit(); });
  $("file").addEventListener("change", () => { const file = $("file").files[0]; if (file) read(file, file.name); $("file").value = ""; });
  for (const name of ["dragenter", "dragover"]) document.addEventListener(name, event => { event.preventDefault(); form.classList.add("over"); });
  document.addEventListener("dragleave", event => { if (!event.relatedTarget) form.classList.remove("over"); });
  document.addEventListener("drop", event => {
    event.preventDefault();
    form.classList.remove("over");
    const file = event.dataTransfer.files[0], text = event.dataTransfer.getData("text");
    if (file) read(file, file.name); else if (text) { setBox(text); submit(); }
  });
}

// A text from elsewhere: it is no edit of the user's.
export function setBox(text) {
  $("text").value = text;
  $("text").dataset.shown = text;
}
