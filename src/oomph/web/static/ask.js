// Questions to the server: how far they are, and a way to give up. A later question ends the one before it.
import {$} from "./dom.js";

let current = null;

export class Refused extends Error {
  constructor({error, hint = "", field = "", kind = "", meant = [], wrong = "", usual = []}) { super(error); Object.assign(this, {hint, field, kind, meant, wrong, usual}); }
}

// words: what is being done, for people. body: an object for a job, or a text or file to be read.
export function ask(path, body, words) {
  current?.abort();
  const link = new XMLHttpRequest();
  const raw = typeof body === "string" || body instanceof Blob;
  const began = performance.now();
  current = link;
  const answer = new Promise((resolve, reject) => {
    link.open("POST", path);
    link.setRequestHeader("X-Oomph", "1");
    link.setRequestHeader("X-Oomph-Job", link.job = crypto.randomUUID());
    link.upload.onprogress = event => { link.sent = event.lengthComputable && event.total > 1e6 ? event.loaded / event.total : null; };
    link.onload = () => {
      let value;
      try { value = JSON.parse(link.responseText); } catch { value = {error: "the server's answer cannot be read"}; }
      if (link.status === 200) resolve(value); else reject(new Refused(value.error ? value : {error: link.responseText || "the server did not answer"}));
    };
    link.onerror = () => reject(new Refused(navigator.onLine || isLocal() ? {error: "the server does not answer: is `oomph ui` still running?", kind: "gone"}
      : {error: "this device has no connection: what you typed stays here", kind: "offline"}));
    link.onabort = () => resolve(null);
    link.send(raw ? body : JSON.stringify(body));
  });
  const timer = setInterval(() => show(words, began, link), 100);
  const watch = raw ? 0 : setInterval(() => follow(link), 700);
  return answer.finally(() => { clearInterval(timer); clearInterval(watch); if (current === link) { current = null; $("status").hidden = true; } });
}

function show(words, began, link) {
  const seconds = (performance.now() - began) / 1000;
  if (current !== link || seconds < 0.4) return;
  $("status").hidden = false;
  const sending = link.sent !== null && link.sent !== undefined && link.sent < 1;
  const {what = "", done = 0, total = 0} = link.far ?? {};
  const far = total ? `, ${what}: ${done} of ${total}` : done ? `, ${done.toLocaleString("en")} ${what}` : "";
  $("doing").textContent = sending ? `Sending: ${Math.round(100 * link.sent)} %` : `${words}, ${seconds.toFixed(0)} s${far}`;
  const share = sending ? link.sent : total ? done / total : null;
  if (share !== null) $("progress").value = share; else $("progress").removeAttribute("value");
}

// A long job says how far it is.
async function follow(link) {
  try { link.far = await (await fetch("/api/progress?job=" + link.job)).json(); } catch { /* the answer is about to come, or will not */ }
}

function isLocal() { return ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname); }

export function cancel() { current?.abort(); }
