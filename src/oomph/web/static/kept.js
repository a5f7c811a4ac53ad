// The user's own text, by entry of the browser's history: in this tab alone, never in the address.
const NAME = "oomph-text-";
let waiting = 0, last = null;

// box: what stands there. text: what was asked, or null where a file too large to keep was.
export function keep(box, text) {
  last = {box, text};
  clearTimeout(waiting);
  waiting = setTimeout(write, 200);
}

export function write() {
  clearTimeout(waiting);
  if (!last || !history.state?.entry) return;
  const value = JSON.stringify(last), name = NAME + history.state.entry;
  if (!store(name, value)) {
    for (const old of Object.keys(sessionStorage).filter(key => key.startsWith(NAME) && key !== name)) sessionStorage.removeItem(old);
    store(name, value);
  }
}

export function kept() {
  try { return JSON.parse(sessionStorage.getItem(NAME + history.state?.entry)); } catch { return null; }
}

function store(name, value) {
  try { sessionStorage.setItem(name, value); return true; } catch { return false; }
}

window.addEventListener("pagehide", write);
