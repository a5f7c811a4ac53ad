// An answer for others: its address, Markdown for a reply, a picture. None of them holds a log.
import {$} from "./dom.js";
import {place} from "./place.js";
import {shown} from "./view.js";

const SCALE = 2; // pixels of a PNG per unit of the picture

export function wireShare(copy) {
  $("share").addEventListener("toggle", () => { for (const button of $("share").querySelectorAll("[data-plan]")) button.hidden = !shown?.picture; });
  $("share").addEventListener("click", async event => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.id === "share-link") copy(button, location.href);
    else if (button.id === "share-markdown") copy(button, shown.reply);
    else if (button.id === "share-svg") download(new Blob([shown.picture], {type: "image/svg+xml"}), "svg");
    else download(await png(shown.picture), "png");
  });
  document.addEventListener("keydown", event => { if (event.key === "Escape") $("share").open = false; });
  document.addEventListener("click", event => { if (!event.target.closest("#share")) $("share").open = false; });
}

export function download(blob, kind, name = `oomph ${place.view} ${place.tabs[place.at]?.model ?? place.model}`) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name.trim().replace(/[^\w.-]+/g, "-").slice(0, 80) + "." + kind;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function png(svg) {
  const image = new Image();
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svg);
  await image.decode();
  const canvas = document.createElement("canvas");
  Object.assign(canvas, {width: image.width * SCALE, height: image.height * SCALE});
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise(done => canvas.toBlob(done, "image/png"));
}
