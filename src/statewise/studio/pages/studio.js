"use strict";
// Giving a file: it is sent as it is, so that its size does not matter.
for (const form of document.querySelectorAll("[data-upload]")) {
  const input = form.querySelector("input[type=file]");
  const meter = form.querySelector(".meter");
  const notice = form.querySelector(".notice");
  const refuse = (sentence) => { notice.textContent = sentence; notice.hidden = false; meter.hidden = true; input.disabled = false; };
  const send = (file) => {
    const query = new URLSearchParams({ name: file.name });
    if (form.dataset.after) query.set("after", form.dataset.after);
    const request = new XMLHttpRequest();
    request.open("PUT", "/logs?" + query);
    request.responseType = "json";
    request.upload.onprogress = (event) => { meter.firstElementChild.style.width = 100 * event.loaded / event.total + "%"; };
    request.onload = () => request.response && request.response.page ? location.assign(request.response.page)
      : refuse((request.response && request.response.error) || "The file could not be read.");
    request.onerror = () => refuse("The studio does not answer: is it still running in its terminal?");
    notice.hidden = true; meter.hidden = false; input.disabled = true;
    request.send(file);
  };
  input.addEventListener("change", () => input.files.length && send(input.files[0]));
  for (const kind of ["dragover", "dragenter"]) form.addEventListener(kind, (event) => { event.preventDefault(); form.classList.add("over"); });
  for (const kind of ["dragleave", "drop"]) form.addEventListener(kind, () => form.classList.remove("over"));
  form.addEventListener("drop", (event) => { event.preventDefault(); if (event.dataTransfer.files.length) send(event.dataTransfer.files[0]); });
}
// A changed menu: what is shown below no longer is what was read.
for (const form of document.querySelectorAll("[data-watch]"))
  form.addEventListener("input", () => { form.classList.add("dirty"); const changed = form.querySelector(".changed"); if (changed) changed.hidden = false; });
// A run: looked at every second, and the page anew once its state is another.
for (const box of document.querySelectorAll("[data-poll]")) {
  const state = () => box.querySelector("#progress").dataset.state;
  const first = state();
  const look = async () => {
    try {
      const answer = await fetch(box.dataset.poll);
      if (answer.ok) box.innerHTML = await answer.text();
      if (state() !== first) return location.reload();
      box.classList.remove("away");
    } catch { box.classList.add("away"); }
    setTimeout(look, 1000);
  };
  if (first === "running") setTimeout(look, 1000);
}
