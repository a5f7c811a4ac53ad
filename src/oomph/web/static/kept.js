// The user's own text, by entry of the browser's history: in this tab alone, never in the address.
const NAME = "oomph-text-", OPEN = "oomph-open";
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
  store(OPEN, JSON.stringify({entry: history.state.entry, hash: location.hash}));
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

// A reload right behind a new entry can load the one before it: the browser had not heard of the new one yet.
export function resume() {
  if (performance.getEntriesByType("navigation")[0]?.type !== "reload") return;
  try {
    const {entry, hash} = JSON.parse(sessionStorage.getItem(OPEN));
    if (entry !== history.state?.entry) history.replaceState({entry}, "", hash || "#");
  } catch { /* nothing was kept */ }
}

window.addEventListener("pagehide", write);
