# PowerShell completion for conductor. `conductor completions powershell` prints this file.

Register-ArgumentCompleter -Native -CommandName @('conductor', 'conductor.exe') -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @(
        foreach ($element in $commandAst.CommandElements) {
            if ($element.Extent.EndOffset -lt $cursorPosition) {
                if ($element -is [System.Management.Automation.Language.StringConstantExpressionAst]) {
                    $element.Value
                } else {
                    $element.Extent.Text
                }
            }
        }
    )
    # Windows PowerShell drops empty arguments of programs, so the last word begins with an equals sign.
    & conductor complete powershell -- @words "=$wordToComplete" 2>$null | ForEach-Object {
        $value, $description = $_ -split "`t", 2
        if (-not $description) {
            $description = $value
        }
        [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $description)
    }
}
