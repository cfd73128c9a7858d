// Wide tables scroll in their own frame; an edge fades out where the table continues.

function update(node) {
  const hidden = node.scrollWidth - node.clientWidth;
  const at = Math.abs(node.scrollLeft);  // Negative in content from right to left.
  node.dataset.wide = String(hidden > 1);
  node.style.setProperty('--more-before', at > 1 ? '1' : '0');
  node.style.setProperty('--more-after', hidden - at > 1 ? '1' : '0');
}

// Created on demand: tests of the Markdown renderer have no layout.
let observer = null;

export function hint_overflow(node) {
  observer ??= new ResizeObserver((entries) => entries.forEach(({target}) => update(target.closest('.table-scroll') ?? target)));
  observer.observe(node);
  for (const child of node.children) observer.observe(child);
  node.addEventListener('scroll', () => update(node), {passive: true});
  return node;
}
