// Makes the heads of tables buttons that sort by their column. Without it the tables stand as they are.
for (const table of document.querySelectorAll("table")) {
  const heads = Array.from(table.tHead.rows[0].cells);
  const body = table.tBodies[0];
  const key = (row, column) => {
    const cell = row.cells[column];
    return cell === undefined ? "" : cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
  };
  // Numbers go before texts, whichever way they are sorted: what has no value comes last.
  const compare = (a, b, sign) => {
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return sign * (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
  };
  const sort = (head, column) => {
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
    body.append(...Array.from(body.rows).sort((a, b) => compare(key(a, column), key(b, column), sign)));
  };
  if (body.rows.length === 1) continue;
  heads.forEach((head, column) => {
    if (head.textContent === "") return;
    const button = document.createElement("button");
    button.type = "button";
    button.title = "Sort by this column";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(head, column));
    head.append(button);
  });
}
