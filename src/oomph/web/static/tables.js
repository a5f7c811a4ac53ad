// Tables whose heads are buttons: the first click sorts, the second turns it around.
export function wireTables(root) {
  root.addEventListener("click", event => {
    const head = event.target.closest("th:has(.sort)");
    if (head) sortBy(head);
  });
}

function sortBy(head) {
  const table = head.closest("table"), body = table.tBodies[0], column = [...head.parentNode.children].indexOf(head);
  const down = head.getAttribute("aria-sort") === "ascending" || (!head.hasAttribute("aria-sort") && head.classList.contains("n"));
  for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const rows = [...body.rows].map(row => ({row, key: row.cells[column].dataset.key ?? row.cells[column].textContent}));
  const numbers = rows.every(({key}) => key === "" || !Number.isNaN(Number(key)));
  rows.sort((a, b) => (numbers ? Number(a.key) - Number(b.key) : a.key.localeCompare(b.key)) * (down ? -1 : 1));
  body.append(...rows.map(({row}) => row));
}
