// What is wider than the screen can be scrolled by keyboard, too; and what opens has a name for screen readers.
document$.subscribe(() => {
  document.querySelectorAll(".md-typeset pre > code, .md-typeset__scrollwrap").forEach(one => (one.tabIndex = 0));
  document.querySelector(".md-search").ariaLabel = "Search";
});
